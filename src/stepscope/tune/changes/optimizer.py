"""All parameters updated at once: `fused` or `foreach` in the constructor of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.collect.chain import like
from stepscope.tune.injection import Injection, users_site

__all__ = ["Optimizer"]


class Optimizer(Injection):
    """settings: {"fused": true} or {"foreach": true}. Rounding may differ in the last bits."""

    name: ClassVar[str] = "optimizer"

    def install(self) -> None:
        import inspect

        import torch

        for made in {kind for kind in vars(torch.optim).values() if isinstance(kind, type)}:
            if not issubclass(made, torch.optim.Optimizer) or "__init__" not in vars(made):
                continue
            accepted = inspect.signature(made.__init__).parameters
            wanted = {key: value for key, value in self.settings.items() if key in accepted}
            if wanted:
                self.patches.replace(made, "__init__", lambda f, w=wanted: self._making(f, w))

    def _making(self, make: Callable[..., None], wanted: dict[str, Any]) -> Callable[..., None]:
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            # Only one of the ways can be chosen: ours takes the place of the program's.
            other = {"fused", "foreach"} - set(wanted)
            ours = {k: v for k, v in kwargs.items() if k not in other} | wanted
            try:
                make(optimizer, *args, **ours)
            except (RuntimeError, TypeError, ValueError) as error:
                self.told.refused(f"{type(optimizer).__name__} takes no {wanted}: {error}")
                make(optimizer, *args, **kwargs)
                return
            words = ", ".join(f"{key}={value}" for key, value in wanted.items())
            self.told.applied(f"{type(optimizer).__name__}({words})", users_site())

        return like(make, init)
