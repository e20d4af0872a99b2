"""Numbers next to nothing are nothing: CPUs are many times slower with denormal ones."""

from __future__ import annotations

from typing import ClassVar

from stepscope.collect.facts import flushes_denormals
from stepscope.tune.injection import Injection

__all__ = ["Denormals"]


class Denormals(Injection):
    """settings: {}. Changes results below 1.2e-38.

    Set before the first operator of the program: threads that OpenMP starts later inherit it.
    """

    name: ClassVar[str] = "denormals"

    def install(self) -> None:
        import torch

        self._was_on = flushes_denormals(torch)
        if self._was_on:
            self.told.refused("denormal numbers are flushed already.")
        elif torch.set_flush_denormal(True):
            self.told.applied("torch.set_flush_denormal(True)")
        else:
            self.told.refused("this CPU cannot flush denormal numbers.")

    def undo(self) -> None:
        import torch

        if not self._was_on:
            torch.set_flush_denormal(False)
        super().undo()
