"""Tells when a module has been imported, without importing it and without changing it.

A finder at the head of `sys.meta_path` lets the other finders find the module and hangs a call on
that one loader's `exec_module`. Loader, spec and module stay what they are, so `find_spec`,
`reload`, `inspect` and `pkgutil` see nothing new. No third-party hook: the training process must
stay light, and this runs in every Python process of the program.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import monotonic_ns

from stepscope.model.own_code import hide_own_frames

TYPE_CHECKING = False  # importing typing would cost more than all of this module
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any, TypeAlias

    Callback: TypeAlias = Callable[[ModuleType], None]
    Failed: TypeAlias = Callable[[str, BaseException], None]

__all__ = ["import_ns", "when_imported"]


def _ignore(where: str, error: BaseException) -> None:
    """Nobody to tell."""


def when_imported(name: str, callback: Callback, failed: Failed = _ignore) -> None:
    """Call `callback(module)` once the module's own code has run: now, if that was before.

    An error in `callback` goes to `failed` and never reaches the program's import statement.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    ):
        _guarded(callback, module, failed)
        return
    _finder.wait(name, callback, failed)


def import_ns(name: str) -> int | None:
    """How long the import of a module took that somebody waited for; None: it was not timed."""
    return _took_ns.get(name)


def _guarded(callback: Callback, module: ModuleType, failed: Failed) -> None:
    try:
        callback(module)
    except Exception as error:  # noqa: BLE001 - the border with the user's program
        failed(f"after the import of {module.__name__}", error)


class _Finder:
    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[Callback, Failed]]] = {}
        self._asking: set[tuple[int, str]] = set()

    def wait(self, name: str, callback: Callback, failed: Failed) -> None:
        self._waiting.setdefault(name, []).append((callback, failed))
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        if name not in self._waiting:
            return None
        # Other hooks like this one ask everybody too: answering them would never end.
        asked = (get_ident(), name)
        if asked in self._asking:
            return None
        self._asking.add(asked)
        try:
            spec = self._ask_the_others(name, path, target)
        finally:
            self._asking.discard(asked)
        if spec is not None:
            self._hang_on(spec)
        return spec

    def _ask_the_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> Any:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _hang_on(self, spec: Any) -> None:
        """Have the loader call back; one that cannot (a class, no exec_module) stays as it is."""
        loader, name = spec.loader, spec.name
        if isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                del loader.exec_module  # what was hung on: the loader's own is back
            except AttributeError:  # another module of a shared loader took it off already
                pass
            began_ns = monotonic_ns()
            try:
                run(module)
            except BaseException:
                hide_own_frames()
                raise
            _took_ns[name] = monotonic_ns() - began_ns
            if module.__name__ == name:
                self._fire(name, module)

        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError):
            pass

    def _fire(self, name: str, module: ModuleType) -> None:
        for callback, failed in self._waiting.pop(name, ()):
            _guarded(callback, module, failed)


_took_ns: dict[str, int] = {}
_finder = _Finder()
