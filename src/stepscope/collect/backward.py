"""Runs of the autograd engine → `backward` spans."""

from __future__ import annotations

from stepscope.collect.chain import spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["BackwardCollector"]


class BackwardCollector(HookingCollector):
    """A span for each `backward()` and `autograd.grad()`."""

    name = "backward"

    def _install(self, recorder: Recorder) -> None:
        import torch

        run = spanned(
            recorder,
            names.BACKWARD,
            torch.autograd.graph._engine_run_backward,
            compiling=torch.compiler.is_dynamo_compiling,
            first=self._first,
        )
        # Both: torch.compiler swaps them for a while and puts the one of `graph` back into both.
        self._patches.put(torch.autograd.graph, "_engine_run_backward", run)
        self._patches.put(torch.autograd, "_engine_run_backward", run)
