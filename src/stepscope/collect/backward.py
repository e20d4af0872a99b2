"""`backward()` and `autograd.grad()`, with the Python around the engine → `backward` spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import nothing, spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.watch import UNWATCHED, Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["BackwardCollector"]


class BackwardCollector(HookingCollector):
    """A span for each outermost `backward()` and `autograd.grad()`."""

    name = "backward"

    def __init__(
        self,
        first: Callable[[], None] = nothing,
        watch: Watch = UNWATCHED,
        after: Callable[[], None] = nothing,
    ) -> None:
        """`after` is called after each outermost one."""
        super().__init__(first)
        self._watch, self._after = watch, after

    def _install(self, recorder: Recorder) -> None:
        import torch

        watched, after = self._watch.after_backward, self._after

        def done(failed: bool) -> None:
            watched(failed)
            after()

        def within(function: Callable[..., Any]) -> Callable[..., Any]:
            return spanned(
                recorder,
                names.BACKWARD,
                function,
                compiling=torch.compiler.is_dynamo_compiling,
                outermost=True,
                first=self._first,
                done=done,
            )

        # Every run of the engine passes one of these. What they do before it (gradients of the
        # roots) is a part of backward, too.
        self._patches.replace(torch.autograd, "backward", within)
        self._patches.replace(torch.autograd, "grad", within)
