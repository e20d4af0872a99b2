"""Times as they are written on a command line."""

from __future__ import annotations

import re

from stepscope.errors import UsageError

__all__ = ["seconds"]

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(option: str, text: str) -> float:
    """
    >>> [seconds("--budget", text) for text in ("90s", "10m", "1.5h", "30")]
    [90.0, 600.0, 5400.0, 30.0]
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None or not float(found[1]):
        raise UsageError(f"{option} {text!r} is no time: write 90s, 10m or 1h.")
    return float(found[1]) * _UNITS[found[2]]
