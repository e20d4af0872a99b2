"""What `op.logged` marks say: the one vocabulary of those who log operators, judge and run them.

Each is JSON: {"op", "overload", "args", "kwargs"}, a tensor in it {"shape", "stride", "dtype",
"device"} and the shares of its values that are "subnormal" and, of a mask, "true"; {} for operators
that are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["AGAIN", "PARTIAL", "is_partial", "tensors"]

AGAIN: Final = '{"again": true}'  # marks before this one do not count
PARTIAL: Final = '{"partial": true}'  # operators that came after the budget was spent


def is_partial(described: Mapping[str, Any]) -> bool:
    return bool(described.get("partial"))


def tensors(described: Any) -> Iterator[dict[str, Any]]:
    """Those of an operator, or of a part of its description, in order."""
    if isinstance(described, list):
        for one in described:
            yield from tensors(one)
    elif isinstance(described, dict):
        if "shape" in described:
            yield described
        else:
            for one in described.values():
                yield from tensors(one)
