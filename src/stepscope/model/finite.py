"""Plain values without NaN and infinity, which strict JSON does not have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["finite"]


def finite(value: Any) -> Any:
    """The value with None in place of every number that is not finite, at any depth.

    >>> finite({"loss": float("nan"), "steps": (1, 2.5)})
    {'loss': None, 'steps': [1, 2.5]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value
