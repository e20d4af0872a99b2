"""float32 instead of float64, wherever a program comes by it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from stepscope.collect.chain import hiding
from stepscope.tune.calls import Around, Call, caller, with_tensors
from stepscope.tune.injection import Injection, users_site

__all__ = ["Float32"]

_NOT_THE_PROGRAM: Final = ("stepscope.", "torch.")  # these know why they want float64


class Float32(Injection):
    """settings: {}. Changes results: 24 bits of mantissa instead of 53.

    float64 comes from the default dtype, from `.double()` and `.to(torch.float64)`, and from numpy.
    What is missed there is converted on its way out of a loader and into a model.
    """

    name: ClassVar[str] = "float32"

    def install(self) -> None:
        import torch
        from torch.utils.data import dataloader

        self._torch = torch
        self._around = Around(self.patches)
        put = self.patches.replace
        put(torch, "set_default_dtype", self._keeping_the_default)
        for kind in (torch.Tensor, torch.nn.Module):
            put(kind, "double", partial(self._single, kind.float))
            put(kind, "to", self._to)
        for function in ("tensor", "as_tensor", "from_numpy"):
            put(torch, function, self._making)
        put(dataloader._BaseDataLoaderIter, "__next__", self._loading)

    def _keeping_the_default(self, set_default: Callable[[Any], None]) -> Callable[..., None]:
        torch = self._torch

        def wrapper(d: Any, /) -> None:
            if d is torch.float64 or d is torch.DoubleTensor:
                self.told.applied("torch.set_default_dtype(torch.float32)", users_site())
                d = torch.float32
            return set_default(d)

        return hiding(set_default, wrapper)

    def _single(self, single: Callable[..., Any], double: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if caller().startswith(_NOT_THE_PROGRAM):
                return double(owner, *args, **kwargs)
            self.told.applied("float() for double()", users_site())
            return single(owner, *args, **kwargs)

        return hiding(double, wrapper)

    def _to(self, to: Callable[..., Any]) -> Callable[..., Any]:
        """Where it is named; another tensor, that it may be taken from, is converted itself."""
        double, single = self._torch.float64, self._torch.float32

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            named = any(one is double for one in (*args, *kwargs.values()))
            if named and not caller().startswith(_NOT_THE_PROGRAM):
                self.told.applied("to(torch.float32)", users_site())
                args = tuple(single if one is double else one for one in args)
                kwargs = {key: single if one is double else one for key, one in kwargs.items()}
            return to(*args, **kwargs)

        return hiding(to, wrapper)

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            made = make(*args, **kwargs)
            if self._is_double(made):
                self.told.applied(f"{make.__name__}(…).float()", users_site())
                return self._to_single(made)
            return made

        return hiding(make, wrapper)

    def _loading(self, following: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(loading: Any) -> Any:
            batch = following(loading)
            single = with_tensors(batch, self._to_single, self._torch.Tensor)
            if single is not batch:
                self.told.applied("float32 out of the loader", users_site())
            return single

        return hiding(following, wrapper)

    def seen(self, module: Any) -> None:
        if any(self._is_double(one) for one in (*module.parameters(), *module.buffers())):
            module._apply(self._to_single)
            self.told.applied("model.float()", users_site())
        self._around.add(module, self._called)

    def _called(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = with_tensors((args, kwargs), self._to_single, self._torch.Tensor)
        return call(*args, **kwargs)

    def _is_double(self, tensor: Any) -> bool:
        return bool(tensor.dtype == self._torch.float64)

    def _to_single(self, tensor: Any) -> Any:
        return tensor.float() if tensor.dtype == self._torch.float64 else tensor

    def undo(self) -> None:
        self._around.clear()
        super().undo()
