"""Durations, sizes and shares as people write them in rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from stepscope.model.amounts import DURATIONS_S, SHARES, SIZES_BYTES, read_amount

__all__ = [
    "Quantity",
    "flag",
    "number",
    "part",
    "quantity",
    "seconds",
    "share",
    "text",
    "times",
    "whole",
]

Quantity = Callable[[Any], Any]  # raises ValueError, whose text says what is allowed

_LONGEST_S: Final = 366 * 86400.0


def seconds(value: Any) -> float:
    """
    >>> seconds("5m"), seconds("250ms"), seconds(30)
    (300.0, 0.25, 30.0)
    """
    allowed = 'a duration such as "30s", "5m" or "2h", or a number of seconds; at most a year'
    given = _read(value, DURATIONS_S)
    if given is None or not 0.0 <= given <= _LONGEST_S:
        raise ValueError(allowed)
    return given


def share(value: Any) -> float:
    """
    >>> share("5%"), share(0.05)
    (0.05, 0.05)
    """
    given = _read(value, SHARES)
    if given is None or not 0.0 <= given <= 1.0:
        raise ValueError('a share from 0 to 1, such as 0.05 or "5%"')
    return given


def part(value: Any) -> float:
    """A share that is not 0: a rule which speaks from there on would never be silent."""
    if (given := share(value)) == 0.0:
        raise ValueError('a share above 0 and up to 1, such as 0.05 or "5%"')
    return given


def quantity(value: Any) -> float:
    """A value of any metric, in its base unit.

    >>> quantity("2KiB"), quantity("90%"), quantity("100ms"), quantity(-3)
    (2048.0, 0.9, 0.1, -3.0)
    """
    given = _read(value, {**DURATIONS_S, **SIZES_BYTES, **SHARES})
    if given is None:
        raise ValueError('a number, or one with a unit such as "4GiB", "90%" or "30s"')
    return given


def times(value: Any) -> float:
    """A factor above 1."""
    given = _read(value, {"x": 1.0})
    if given is None or not 1.0 < given <= 1e6:
        raise ValueError("a factor above 1")
    return given


def number(value: Any) -> float:
    given = _read(value, {})
    if given is None:
        raise ValueError("a number")
    return given


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9:
        raise ValueError("a whole number that is not negative")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise ValueError("a text of up to 200 characters")
    return value


def _read(value: Any, units: dict[str, float]) -> float | None:
    """In base units; None: it is no finite number, or of another unit."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 and math.isfinite(value) else None
    return read_amount(value, units) if isinstance(value, str) else None
