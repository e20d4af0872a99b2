"""Copies to a device that the host does not wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.collect.chain import hiding
from stepscope.tune.injection import Injection, users_site

__all__ = ["NonBlocking"]


class NonBlocking(Injection):
    """settings: {}. Copies out of pinned memory to an accelerator. Never back to the host, where
    the values would be read before they are there. Results stay the same."""

    name: ClassVar[str] = "non-blocking"

    def install(self) -> None:
        import torch

        self._torch = torch
        self._device = self.accelerator()
        if self._device is None:
            self.told.refused("there is no accelerator to copy to.")
            return
        self.patches.replace(torch.Tensor, "to", self._copying)
        if self._device == "cuda":
            self.patches.replace(torch.Tensor, "cuda", self._copying_to_cuda)

    def accelerator(self) -> str | None:
        """The kind of device that this machine has besides its CPUs; None: none."""
        if not self._torch.accelerator.is_available():
            return None
        return str(self._torch.accelerator.current_accelerator().type)

    def _copying(self, to: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            target = kwargs.get("device", args[0] if args else None)
            # to(device, dtype, non_blocking): whoever gives the third has chosen.
            if len(args) < 3 and self._is_for_us(target) and self._is_pinned(tensor, kwargs):
                kwargs["non_blocking"] = True
                self.told.applied("to(…, non_blocking=True)", users_site())
            return to(tensor, *args, **kwargs)

        return hiding(to, wrapper)

    def _copying_to_cuda(self, cuda: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) < 2 and self._is_pinned(tensor, kwargs):
                kwargs["non_blocking"] = True
                self.told.applied("cuda(non_blocking=True)", users_site())
            return cuda(tensor, *args, **kwargs)

        return hiding(cuda, wrapper)

    def _is_for_us(self, target: Any) -> bool:
        if isinstance(target, str):
            return target.partition(":")[0] == self._device
        if isinstance(target, int) and not isinstance(target, bool):
            return True
        return isinstance(target, self._torch.device) and target.type == self._device

    def _is_pinned(self, tensor: Any, kwargs: dict[str, Any]) -> bool:
        return "non_blocking" not in kwargs and tensor.device.type == "cpu" and tensor.is_pinned()
