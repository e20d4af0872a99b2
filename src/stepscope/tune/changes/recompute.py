"""The program's own activation checkpoints do nothing: what they would free is kept instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.collect.chain import hiding
from stepscope.collect.checkpoints import door
from stepscope.tune.injection import Injection, users_site

__all__ = ["Recompute"]


class Recompute(Injection):
    """settings: {}. Results stay the same; memory grows by what the checkpoints saved."""

    name: ClassVar[str] = "recompute"

    def install(self) -> None:
        import torch.utils.checkpoint

        for function in ("checkpoint", "checkpoint_sequential"):
            self.patches.replace(torch.utils.checkpoint, function, self._telling)
        door().shut = True

    def _telling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.told.applied(f"no {original.__name__}()", users_site())
            return original(*args, **kwargs)

        return hiding(original, wrapper)

    def undo(self) -> None:
        door().shut = False
        super().undo()
