"""Counts the calls that bring a tensor's value to Python, for one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import Patches, hiding
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["SyncCounter"]

_METHODS = ("item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__index__")


class SyncCounter:
    """Each of them waits for the device, and ends what can be compiled.

    Those of optimizers are left out: their step counts lie on the host, and are not the user's.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.count = 0
        self._patches = Patches()
        self._is_open = recorder.is_open
        self._optimizer = recorder.intern(names.OPTIMIZER_STEP)
        self._within = False  # some call each other

    def begin(self) -> None:
        import torch

        self.count = 0
        self._compiling = torch.compiler.is_dynamo_compiling
        for method in _METHODS:
            original = getattr(torch.Tensor, method)
            self._patches.put(torch.Tensor, method, self._counted(original))

    def end(self) -> None:
        self._patches.undo()

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if not self._compiling() and not self._within and not self._is_open(self._optimizer):
                self.count += 1
                self._within = True
                try:
                    return original(*args, **kwargs)
                finally:
                    self._within = False
            return original(*args, **kwargs)

        return hiding(original, counted)
