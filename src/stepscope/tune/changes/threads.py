"""As many threads as pay: torch's own, and those of processes that the program starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar, Final

from stepscope.collect.chain import hiding
from stepscope.tune.injection import Injection, users_site

__all__ = ["Threads"]

_FOR_CHILDREN: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Threads(Injection):
    """settings: {"torch": n, "interop"?: n, "workers"?: n}: at most so many, whatever the program
    asks for; fewer are its own choice. workers: in each worker of a loader."""

    name: ClassVar[str] = "threads"

    def install(self) -> None:
        import torch

        self._torch = torch
        self._before = {name: os.environ.get(name) for name in _FOR_CHILDREN}
        self._had = torch.get_num_threads()
        most = self._most("torch")
        if most:
            os.environ.update(dict.fromkeys(_FOR_CHILDREN, str(most)))
            if most != self._had:
                torch.set_num_threads(most)
                self.told.applied(f"torch.set_num_threads({most})")
        self.patches.replace(torch, "set_num_threads", self._capping)
        if self._most("interop"):
            self._set_interop()

    def _most(self, what: str) -> int:
        """0: not limited."""
        return max(0, int(self.settings.get(what) or 0))

    def _capping(self, set_threads: Callable[[int], None]) -> Callable[..., None]:
        from torch.utils.data import get_worker_info

        def wrapper(number: Any) -> None:
            in_worker = get_worker_info() is not None
            most = self._most("workers" if in_worker else "torch")
            if most and isinstance(number, int) and number > most:
                if not in_worker:
                    self.told.applied(f"torch.set_num_threads({most})", users_site())
                number = most
            return set_threads(number)

        return hiding(set_threads, wrapper)

    def _set_interop(self) -> None:
        """torch takes it once, before its first parallel work: now."""
        most = self._most("interop")
        try:
            self._torch.set_num_interop_threads(most)
        except RuntimeError as error:
            self.told.refused(f"torch.set_num_interop_threads({most}): {error}")
            return
        self.told.applied(f"torch.set_num_interop_threads({most})")
        self.patches.replace(self._torch, "set_num_interop_threads", self._done_already)

    def _done_already(self, original: Callable[..., None]) -> Callable[..., None]:
        def wrapper(number: int) -> None:
            most = self._most("interop")
            self.told.applied(f"torch.set_num_interop_threads({most})", users_site())

        return hiding(original, wrapper)

    def undo(self) -> None:
        super().undo()
        self._torch.set_num_threads(self._had)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
