"""Lines of a file of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["NO_SOURCE", "Source", "SourceText"]


class SourceText(NamedTuple):
    """`changed`: the file was written to after the run began, so the lines may be others now."""

    lines: tuple[str, ...] = ()
    changed: bool = False


NO_SOURCE = SourceText()

# (file, first line, last line) → their text; fewer or none where they cannot be read.
Source: TypeAlias = Callable[[str, int, int], SourceText]
