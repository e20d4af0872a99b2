"""Plain values that every reader of JSON takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["strict_json"]


def strict_json(value: Any, largest: float = math.inf) -> Any:
    """The same value with None for each number that JSON does not have (nan, infinities), names for
    the fields of named tuples, and texts as keys. Numbers beyond ±`largest` are cut to it.

    >>> strict_json({"cpu": (1.0, float("nan"))})
    {'cpu': [1.0, None]}
    """
    if isinstance(value, float):
        return min(largest, max(-largest, value)) if math.isfinite(value) else None
    if hasattr(value, "_asdict"):
        return strict_json(value._asdict(), largest)
    if isinstance(value, Mapping):
        return {str(key): strict_json(one, largest) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(one, largest) for one in value]
    return value
