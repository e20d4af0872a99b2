"""Functions of other packages (entry points) and of the program that take part in what we do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import metadata
from typing import Any

from stepscope.errors import UsageError

__all__ = ["Extensions"]

Function = Callable[..., Any]


class Extensions:
    """The functions of one group of entry points, and those that the program adds, by name.

    takes: what they are called with, in words.
    """

    def __init__(self, group: str, takes: str) -> None:
        self._group, self._takes = group, takes
        self._added: dict[str, Function] = {}

    def add(self, name: str, function: Function) -> None:
        """Again under the same name: instead of the one before, or of an entry point."""
        if not name:
            raise UsageError("name='' is not possible: the result would have no name.")
        if not _is_usable(name):
            raise UsageError(f"name={name!r} is not possible: use a text without slashes.")
        if not callable(function):
            raise UsageError(
                f"function={function!r} is not possible: pass one that takes {self._takes}."
            )
        self._added[name] = function

    def all(self) -> Mapping[str, Function]:
        return {**_installed(self._group), **self._added}


@cache
def _installed(group: str) -> dict[str, Function]:
    """What installed packages offer; loaded when it is called, where an error can be reported."""
    found = metadata.entry_points(group=group)
    return {one.name: partial(_load_and_call, one) for one in found if _is_usable(one.name)}


def _is_usable(name: Any) -> bool:
    """It may become part of the name of a file."""
    return isinstance(name, str) and set(name).isdisjoint("/\\\0")


def _load_and_call(entry: metadata.EntryPoint, *about: Any) -> Any:
    return entry.load()(*about)
