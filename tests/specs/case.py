"""One block of a specification: what stands in for its placeholders, and what must be true then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Case", "Names", "nothing_given"]

Names = Mapping[str, Any]


def nothing_given() -> dict[str, Any]:
    return {}


class Case(NamedTuple):
    then: Callable[[Names, str], None]  # given the names after the block, and what it printed
    given: Callable[[], dict[str, Any]] = nothing_given
