"""JSON from somewhere else, bounded by the memory that its values will take."""

from __future__ import annotations

import json
from typing import Any, Final

from stepscope.errors import FormatError

__all__ = ["load_plain_json"]

_MAX_HELD_BYTES: Final = 1 << 30
# What CPython makes of a character, about: of "[" a list, of "{" a dict with its keys, of ","
# another value.
_TAKES_BYTES: Final = {b"[": 64, b"{": 200, b",": 40}


def load_plain_json(content: bytes, name: str) -> Any:
    """FormatError: it is broken, nested too deeply, or too much to hold."""
    held = len(content) + sum(each * content.count(mark) for mark, each in _TAKES_BYTES.items())
    if held > _MAX_HELD_BYTES:
        raise FormatError(
            f"{name} needs more than {_MAX_HELD_BYTES >> 20} MiB to be read: record a shorter"
            " window."
        )
    try:
        return json.loads(content)
    except RecursionError:
        raise FormatError(f"{name} is nested too deeply to be a memory file.") from None
    except ValueError as error:
        raise FormatError(f"{name} is broken JSON ({error}): export it again.") from error
