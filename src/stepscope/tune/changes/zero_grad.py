"""Gradients are let go of instead of being filled with zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from stepscope.collect.chain import hiding
from stepscope.tune.injection import Injection, users_site

__all__ = ["ZeroGrad"]


class ZeroGrad(Injection):
    """settings: {}. Results stay the same to the bit: a parameter that had a gradient once and gets
    none in a step has zeros again before the optimizer sees it (momentum and decay go on).

    A program that reads `.grad` between `zero_grad` and backward finds None there.
    """

    name: ClassVar[str] = "zero-grad"

    def install(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._is_active = False
        # optimizer → ids of its parameters that had a gradient; None: all had one.
        self._had: WeakKeyDictionary[Any, set[int] | None] = WeakKeyDictionary()
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            self.patches.replace(owner, "zero_grad", self._letting_go)
        self._hook = register_optimizer_step_pre_hook(self._before_step)

    def _letting_go(self, zero_grad: Callable[..., None]) -> Callable[..., None]:
        def wrapper(owner: Any, set_to_none: bool = True, *args: Any, **kwargs: Any) -> None:
            if not set_to_none and not (args or kwargs):
                self._is_active = True
                self.told.applied("zero_grad(set_to_none=True)", users_site())
                set_to_none = True
            return zero_grad(owner, set_to_none, *args, **kwargs)

        return hiding(zero_grad, wrapper)

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if not self._is_active:
            return
        import torch

        groups = optimizer.param_groups
        missing = [one for group in groups for one in group["params"] if one.grad is None]
        had = self._had.get(optimizer, set())
        if not missing:
            if had is not None:
                self._had[optimizer] = None
            return
        for parameter in missing:
            if had is None or id(parameter) in had:
                parameter.grad = torch.zeros_like(parameter)
        if had is not None:
            gone = {id(one) for one in missing} - had
            self._had[optimizer] = {
                id(one) for group in groups for one in group["params"] if id(one) not in gone
            }

    def undo(self) -> None:
        self._hook.remove()
        super().undo()
