"""Puts something else in place of functions that are known under many names."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["Door", "put_in_place"]

_ABILITIES = (
    "supports_dir_fd",
    "supports_effective_ids",
    "supports_fd",
    "supports_follow_symlinks",
)


class Door:
    """Stands where a built-in function stood, and acts for it.

    Not a function: as a class attribute it takes no `self`, like a built-in. Errors name the file
    as the program did.
    """

    def __init__(self, original: Any, act: Callable[..., Any], *, paths: int = 1) -> None:
        self.__wrapped__ = original
        self.__name__ = original.__name__
        self.__qualname__ = original.__qualname__
        self.__module__ = original.__module__
        self.__doc__ = original.__doc__
        self._act, self._paths = act, paths

    def __call__(self, *args: Any, **named: Any) -> Any:
        try:
            return self._act(*args, **named)
        except OSError as error:
            if error.filename is not None and args and not isinstance(args[0], int):
                error.filename = args[0]
                if self._paths > 1 and len(args) > 1:
                    error.filename2 = args[1]
            raise

    def __reduce__(self) -> str:
        return str(self.__name__)

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"


def put_in_place(replaced: Mapping[Any, Any]) -> None:
    """Give every module that knows one of these by name its replacement instead."""
    by_id = {id(original): new for original, new in replaced.items()}
    for name, module in list(sys.modules.items()):
        if name.startswith("stepscope.tune.guard"):
            continue
        known = getattr(module, "__dict__", {})
        for key, value in list(known.items()):
            new = by_id.get(id(value))
            if new is not None:
                known[key] = new
    for ability in _ABILITIES:
        able = getattr(os, ability)
        able |= {replaced[original] for original in replaced if original in able}
