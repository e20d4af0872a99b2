"""Knows before this process looks at a path, or lets others look: what is pending is done first."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
from collections.abc import Callable, Iterable
from typing import Any, Final

from stepscope.collect.chain import Patches, hiding
from stepscope.tune.calls import caller

__all__ = ["Doors", "is_ours"]

# function of os → how many of its first arguments are paths
_PATHS: Final = {
    "access": 1, "chmod": 1, "link": 2, "listdir": 1, "lstat": 1, "open": 1, "remove": 1,
    "rename": 2, "replace": 2, "rmdir": 1, "scandir": 1, "stat": 1, "symlink": 1, "truncate": 1,
    "unlink": 1, "utime": 1,
}  # fmt: skip
_NAMES: Final = ("path", "src", "dst", "file")
_ABOUT_FOLDERS: Final = ("dir_fd", "src_dir_fd", "dst_dir_fd")
_LEAVING: Final = ("_exit", "system", "posix_spawn", "posix_spawnp", "execv", "execve")
_ABILITIES: Final = ("supports_dir_fd", "supports_fd", "supports_follow_symlinks")


class Doors:
    """`look(path)` is called before; `look(None)` before anything could be looked at: another
    program starts, or this process ends or forks."""

    def __init__(
        self, patches: Patches, is_busy: Callable[[], bool], look: Callable[[str | None], None]
    ) -> None:
        """is_busy: whether anything is pending; asked at every door, so it has to be quick."""
        self._patches, self._is_busy, self._look = patches, is_busy, look
        self._able: list[tuple[set[Any], Any]] = []

    def install(self, but: Iterable[str] = ()) -> None:
        """but: functions of os that somebody else stands at."""
        for name in sorted(set(_PATHS) - set(but)):
            self._put(os, name, self._with_paths(_PATHS[name]))
        for owner in (builtins, io):
            self._put(owner, "open", self._with_paths(1))
        for name in _LEAVING:
            self._put(os, name, self._with_all)
        self._put(subprocess.Popen, "__init__", self._with_all)
        os.register_at_fork(before=self._before_fork)

    def undo(self) -> None:
        """The patches are undone by their owner."""
        self._is_busy = lambda: False  # os has no way to forget what is done at forks
        for ability, function in self._able:
            ability.discard(function)

    def _put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        replacement = make(original)
        self._patches.put(owner, name, replacement)
        self.enable_as(original, replacement)

    def enable_as(self, original: Any, replacement: Any) -> None:
        """What os says `original` can do, the one in its place can do too."""
        for ability in (getattr(os, name) for name in _ABILITIES):
            if original in ability:
                ability.add(replacement)
                self._able.append((ability, replacement))

    def _with_paths(self, count: int) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if self._is_busy() and not is_ours():
                    self._look_at(args[:count], kwargs)
                return original(*args, **kwargs)

            return hiding(original, wrapper)

        return make

    def _with_all(self, original: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._is_busy() and not is_ours():
                self._look(None)
            return original(*args, **kwargs)

        return hiding(original, wrapper)

    def _look_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if any(kwargs.get(name) is not None for name in _ABOUT_FOLDERS):
            self._look(None)
            return
        for path in (*args, *(kwargs[name] for name in _NAMES if name in kwargs)):
            if isinstance(path, (str, bytes, os.PathLike)):
                self._look(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - as it is, links too
            elif path is None:
                self._look(os.path.abspath(os.curdir))  # noqa: PTH100
        if not args and not kwargs:  # os.listdir()
            self._look(os.path.abspath(os.curdir))  # noqa: PTH100

    def _before_fork(self) -> None:
        if self._is_busy():
            self._look(None)


def is_ours() -> bool:
    """Whether a wrapper was called by stepscope, which looks at files to measure them, not to use
    what is in them."""
    return caller(3).startswith("stepscope.")
