"""Numbers with a unit, as people write them: "4GiB", "90%", "30s"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["DURATIONS_S", "SHARES", "SIZES_BYTES", "read_amount", "read_bytes"]

# What one of each unit is, by its name in lower case.
DURATIONS_S: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SIZES_BYTES: Final = {
    "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
}  # fmt: skip
SHARES: Final = {"%": 0.01}
# Only where nothing but a size can be meant: "5m" is also a time.
_SHORT_SIZES_BYTES: Final = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
_WRITTEN: Final = re.compile(r"\s*([+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]{0,4}|%)\s*")


def read_amount(text: str, units: Mapping[str, float]) -> float | None:
    """In base units, which is also what a bare number is in. None: it is no number with one of
    these units.

    >>> read_amount("1.5 h", DURATIONS_S), read_amount("30", DURATIONS_S)
    (5400.0, 30.0)
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    unit = found[2].lower()
    each = units.get(unit) if unit else 1.0
    return None if each is None else float(found[1]) * each


def read_bytes(text: str) -> int | None:
    """None: it is no size.

    >>> read_bytes("800 MB"), read_bytes("1.5g"), read_bytes("60%")
    (800000000, 1610612736, None)
    """
    size = read_amount(text, SIZES_BYTES | _SHORT_SIZES_BYTES)
    return None if size is None else int(size)
