"""What backward passes begin with → `loss` samples, where somebody wants to know.

In trials all of them, so that two runs can be compared. In watched runs those that cost nothing to
read, now and then: whether training diverges shows in those too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stepscope.collect.chain import hiding
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["WATCHED_INTERVAL_S", "LossCollector"]

WATCHED_INTERVAL_S: Final = 0.2


class LossCollector(HookingCollector):
    """The value of every scalar that `backward()` is called on. Reading it waits for its device.

    interval_s: more than 0: at most one in so long, and only those that lie on the CPU.
    """

    name = "losses"

    def __init__(self, interval_s: float = 0.0) -> None:
        super().__init__()
        self._interval_ns = round(interval_s * 1e9)
        self._next_ns = 0

    def _install(self, recorder: Recorder) -> None:
        import torch

        number, compiling = recorder.intern(names.LOSS), torch.compiler.is_dynamo_compiling

        def tell(tensors: Any) -> None:
            for tensor in tensors:
                if tensor.numel() == 1 and self._may_read(tensor):
                    recorder.sample(number, float(tensor.detach()))

        def told(run: Callable[..., Any]) -> Callable[..., Any]:
            def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
                if compiling():
                    return run(tensors, *args, **kwargs)
                try:
                    if not self._interval_ns or self._is_due(recorder.now_ns()):
                        tell(tensors)
                except Exception as error:  # noqa: BLE001 - the border with the user's program
                    recorder.failed(self.name, error)
                return run(tensors, *args, **kwargs)

            return hiding(run, run_backward)

        wrapped = told(torch.autograd.graph._engine_run_backward)
        # Both: see collect/backward.py.
        self._patches.put(torch.autograd.graph, "_engine_run_backward", wrapped)
        self._patches.put(torch.autograd, "_engine_run_backward", wrapped)

    def _is_due(self, now_ns: int) -> bool:
        if now_ns < self._next_ns:
            return False
        self._next_ns = now_ns + self._interval_ns
        return True

    def _may_read(self, tensor: Any) -> bool:
        return not self._interval_ns or bool(tensor.is_cpu)
