"""Runs of the autograd engine → `backward` spans."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.collect.chain import Patches, nothing, spanned
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["BackwardCollector"]


class BackwardCollector:
    """A span for each `backward()` and `autograd.grad()`."""

    name = "backward"

    def __init__(self, first: Callable[[], None] = nothing) -> None:
        self._first = first
        self._patches = Patches()
        self._running = False

    def start(self, recorder: Recorder) -> None:
        if self._running:
            return
        self._running = True
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

    def stop(self) -> None:
        self._patches.undo()
        self._running = False
