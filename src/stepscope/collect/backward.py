"""Runs of the autograd engine → `backward` spans."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.collect.chain import nothing, spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.watch import UNWATCHED, Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["BackwardCollector"]


class BackwardCollector(HookingCollector):
    """A span for each `backward()` and `autograd.grad()`."""

    name = "backward"

    def __init__(self, first: Callable[[], None] = nothing, watch: Watch = UNWATCHED) -> None:
        super().__init__(first)
        self._watch = watch

    def _install(self, recorder: Recorder) -> None:
        import torch

        run = spanned(
            recorder,
            names.BACKWARD,
            torch.autograd.graph._engine_run_backward,
            compiling=torch.compiler.is_dynamo_compiling,
            first=self._first,
            done=self._watch.after_backward,
        )
        # Both: torch.compiler swaps them for a while and puts the one of `graph` back into both.
        self._patches.put(torch.autograd.graph, "_engine_run_backward", run)
        self._patches.put(torch.autograd, "_engine_run_backward", run)
