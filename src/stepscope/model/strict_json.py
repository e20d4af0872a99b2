"""Plain values that every reader of JSON takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["strict_json"]


def strict_json(value: Any) -> Any:
    """The same value with None for each number that JSON does not have (nan, infinities), names for
    the fields of named tuples, and texts as keys.

    >>> strict_json({"cpu": (1.0, float("nan"))})
    {'cpu': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "_asdict"):
        return strict_json(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): strict_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(one) for one in value]
    return value
