"""A function compiled by torch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

__all__ = ["Compiled", "has_compiler"]


class Compiled:
    """What torch cannot compile, or run when it has, goes to the function itself from then on."""

    def __init__(self, function: Callable[[Any], Any], sample: Any) -> None:
        import torch

        update_wrapper(self, function)
        self._function = function
        self._fast: Callable[[Any], Any] | None = torch.compile(function)
        self._fast(sample)  # compiles it; what goes wrong then is the caller's to see

    def __call__(self, data: Any) -> Any:
        if self._fast is None:
            return self._function(data)
        try:
            return self._fast(data)
        except Exception:  # noqa: BLE001 - torch's or the function's own: the latter comes again
            self._fast = None
            return self._function(data)


def has_compiler() -> bool:
    """torch.compile needs one for C++ on a CPU."""
    names = [os.environ.get("CXX", ""), "g++", "clang++"]
    return any(name and shutil.which(name) for name in names)
