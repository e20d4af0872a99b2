"""What backward passes begin with → `loss` samples, in trials: so that two runs can be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import like
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["LossCollector"]


class LossCollector(HookingCollector):
    """The value of every scalar that `backward()` is called on. Reading it waits for its device."""

    name = "losses"

    def _install(self, recorder: Recorder) -> None:
        import torch

        number = recorder.intern(names.LOSS)

        def told(run: Callable[..., Any]) -> Callable[..., Any]:
            def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
                try:
                    for tensor in tensors:
                        if tensor.numel() == 1:
                            recorder.sample(number, float(tensor.detach()))
                except Exception as error:  # noqa: BLE001 - the border with the user's program
                    recorder.failed(self.name, error)
                return run(tensors, *args, **kwargs)

            return like(run, run_backward)

        wrapped = told(torch.autograd.graph._engine_run_backward)
        # Both: see collect/backward.py.
        self._patches.put(torch.autograd.graph, "_engine_run_backward", wrapped)
        self._patches.put(torch.autograd, "_engine_run_backward", wrapped)
