"""Convolutions over images in channels_last: the layout that their kernels are made for."""

from __future__ import annotations

from typing import Any, ClassVar

from stepscope.collect.facts import is_channels_last
from stepscope.tune.calls import Around, Call, Guarded, Wrap, with_tensors
from stepscope.tune.injection import Injection, users_site

__all__ = ["Layout"]


class Layout(Injection):
    """settings: {}. Models with a Conv2d, and images that go into them; images that come out lie
    as before. A model that fails with it (a `view` over channels) runs as it was."""

    name: ClassVar[str] = "layout"

    def install(self) -> None:
        self._around = Around(self.patches)
        self._changed: list[Any] = []

    def seen(self, module: Any) -> None:
        import torch

        weights = [m.weight for m in module.modules() if isinstance(m, torch.nn.Conv2d)]
        if not weights:
            return
        if any(is_channels_last(torch, weight) for weight in weights):
            self.told.refused("the model is in channels_last already.", users_site())
            return
        if any(hasattr(weight, "materialize") for weight in weights):
            self.told.refused("the model's parameters are made in its first call.", users_site())
            return
        module.to(memory_format=torch.channels_last)
        self._changed.append(module)
        self._around.add(module, self._wrapped(module))
        self.told.applied("model.to(memory_format=torch.channels_last)", users_site())

    def _wrapped(self, module: Any) -> Wrap:
        import torch

        guarded = Guarded(module, lambda error: self._give_up(module, error))
        last, first = _last(torch), _first(torch)

        def call_with(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            def changed() -> Any:
                args_, kwargs_ = with_tensors((args, kwargs), last, torch.Tensor)
                return with_tensors(call(*args_, **kwargs_), first, torch.Tensor)

            return guarded.run(changed, lambda: call(*args, **kwargs))

        return call_with

    def _give_up(self, module: Any, error: BaseException) -> None:
        self._put_back(module)
        self.told.refused(f"the model fails in channels_last: {error}", users_site())

    def _put_back(self, module: Any) -> None:
        import torch

        self._around.remove(module)
        self._changed = [one for one in self._changed if one is not module]
        module.to(memory_format=torch.contiguous_format)

    def undo(self) -> None:
        for module in list(self._changed):
            self._put_back(module)
        self._around.clear()
        super().undo()


def _last(torch: Any) -> Any:
    def last(tensor: Any) -> Any:
        if tensor.dim() != 4 or not tensor.is_floating_point() or tensor.layout != torch.strided:
            return tensor
        return tensor.contiguous(memory_format=torch.channels_last)

    return last


def _first(torch: Any) -> Any:
    """Images as the program expects them: it may call `view` on them."""

    def first(tensor: Any) -> Any:
        return tensor.contiguous() if is_channels_last(torch, tensor) else tensor

    return first
