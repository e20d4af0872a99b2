"""Stands in for torch in the programs of these tests: takes what torch takes, and notes each call.

`calls`: what was called, with which arguments and from which line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__path__: list[str] = []
calls: list[dict[str, Any]] = []
_state: dict[str, Any] = {"autocast": None}


def _note(what: str, **given: Any) -> None:
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith("<frozen"):
        assert frame.f_back is not None
        frame = frame.f_back
    code = frame.f_code
    said = {
        key: value if isinstance(value, _PLAIN) else _words(value) for key, value in given.items()
    }
    calls.append(
        {
            "what": what,
            "given": said,
            "file": code.co_filename,
            "line": frame.f_lineno,
            "function": code.co_qualname,
        }
    )


_PLAIN = (bool, int, float, str, type(None))


def _words(value: Any) -> str:
    return (
        str(value)
        if isinstance(value, (list, tuple, dict, Dtype, Tensor))
        else type(value).__name__
    )


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


float32, float64, double = Dtype("float32"), Dtype("float64"), Dtype("float64")
bfloat16, float16 = Dtype("bfloat16"), Dtype("float16")
channels_last = Dtype("channels_last")


class Device:
    type = "cpu"


class Tensor:
    device = Device()

    def __init__(self, dtype: Dtype = float32, memory_format: str = "contiguous") -> None:
        self.dtype, self.memory_format = dtype, memory_format
        self.shape = (2, 3, 4, 4)

    def __str__(self) -> str:
        return f"{self.dtype}, {self.memory_format}"

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        if args:  # a layout is no copy to anywhere
            _note("to", args=args, **kwargs)
        named = [one for one in (*args, kwargs.get("dtype")) if isinstance(one, Dtype)]
        laid = str(kwargs.get("memory_format", self.memory_format))
        return Tensor(named[0] if named else self.dtype, laid)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        _note("cuda", device=device, non_blocking=non_blocking)
        return self

    def float(self) -> Tensor:
        return Tensor(float32, self.memory_format)

    def double(self) -> Tensor:
        _note("double")
        return Tensor(float64, self.memory_format)

    def backward(self) -> None:
        _note("backward")

    def __add__(self, other: Any) -> Tensor:
        return self

    __mul__ = __radd__ = __add__


def from_numpy(ndarray: Any) -> Tensor:
    _note("from_numpy")
    return Tensor(float64)


def tensor(data: Any, *, dtype: Dtype | None = None) -> Tensor:
    _note("tensor", dtype=dtype)
    return Tensor(dtype or float64)


def zeros(*size: Any, dtype: Dtype | None = None) -> Tensor:
    return Tensor(dtype or float32)


def set_num_threads(number: int, /) -> None:
    _note("set_num_threads", number=number)


def set_num_interop_threads(number: int, /) -> None:
    _note("set_num_interop_threads", number=number)


def set_flush_denormal(mode: bool, /) -> bool:
    _note("set_flush_denormal", mode=mode)
    return True


def set_default_dtype(d: Dtype, /) -> None:
    _note("set_default_dtype", d=d)


class autocast:  # noqa: N801 - torch's name
    def __init__(self, device_type: str, dtype: Dtype | None = None) -> None:
        self.dtype = f"{device_type} {dtype}"

    def __enter__(self) -> autocast:
        _state["autocast"] = self.dtype
        return self

    def __exit__(self, *args: Any) -> None:
        _state["autocast"] = None


class Module:
    def __init__(self) -> None:
        self._laid, self._compiled, self._dtype = "contiguous", "", "float32"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named = {f"input_{key}": value for key, value in (*enumerate(args), *kwargs.items())}
        own = {"model": self._laid, "compiled": self._compiled, "dtype": self._dtype}
        _note("forward", **own, autocast=_state["autocast"], **named)
        return Tensor()

    def parameters(self) -> Iterator[Tensor]:
        yield Tensor()

    def to(self, *args: Any, **kwargs: Any) -> Module:
        self._laid = str(kwargs.get("memory_format", self._laid))
        return self

    def cuda(self) -> Module:
        return self

    def float(self) -> Module:
        self._dtype = "float32"
        return self

    def double(self) -> Module:
        _note("double")
        self._dtype = "float64"
        return self

    def train(self, mode: bool = True) -> Module:
        return self

    def compile(self, **options: Any) -> None:
        self._compiled = f"compiled {options}"

    def zero_grad(self, set_to_none: bool = True) -> None:
        _note("zero_grad", set_to_none=set_to_none)


class Conv2d(Module):
    def __init__(self, *args: Any) -> None:
        super().__init__()


class CrossEntropyLoss(Module):
    def __call__(self, *args: Any) -> Any:
        return Tensor()


class Optimizer:
    def __init__(self, **given: Any) -> None:
        if given.get("fused") and given.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        _note(type(self).__name__, **given)

    def zero_grad(self, set_to_none: bool = True) -> None:
        _note("zero_grad", set_to_none=set_to_none)

    def step(self) -> None:
        pass


def _given(names: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in names.items() if key not in ("self", "__class__", "params")
    }


class AdamW(Optimizer):
    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: Any = 1e-8,
        weight_decay: Any = 1e-2,
        amsgrad: Any = False,
        *,
        maximize: Any = False,
        foreach: Any = None,
        capturable: Any = False,
        differentiable: Any = False,
        fused: Any = None,
    ) -> None:
        super().__init__(**_given(locals()))


class RMSprop(Optimizer):
    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: Any = 0.99,
        eps: Any = 1e-8,
        weight_decay: Any = 0,
        momentum: Any = 0,
        centered: Any = False,
        capturable: Any = False,
        foreach: Any = None,
        maximize: Any = False,
        differentiable: Any = False,
    ) -> None:
        super().__init__(**_given(locals()))


class DataLoader:
    def __init__(
        self,
        dataset: Any,
        batch_size: Any = 1,
        shuffle: Any = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: Any = 0,
        collate_fn: Any = None,
        pin_memory: Any = False,
        drop_last: Any = False,
        timeout: Any = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: Any = None,
        persistent_workers: Any = False,
        pin_memory_device: Any = "",
        in_order: Any = True,
    ) -> None:
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers or timeout):
            raise ValueError("this needs num_workers > 0")
        given = {key: value for key, value in locals().items() if key not in ("self", "dataset")}
        _note("DataLoader", **given)
        self.dataset = dataset

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(self) -> Any:
        return iter(self.dataset)


class Dataset:
    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def checkpoint(
    function: Any,
    *args: Any,
    use_reentrant: Any = None,
    context_fn: Any = None,
    determinism_check: Any = "default",
    debug: Any = False,
    early_stop: Any = True,
    **kwargs: Any,
) -> Any:
    _note("checkpoint", use_reentrant=use_reentrant)
    return function(*args, **kwargs)


def _module(name: str, **what: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(what)
    sys.modules[name] = made
    return made


_data = _module("torch.utils.data", DataLoader=DataLoader, Dataset=Dataset)
_checkpoint = _module("torch.utils.checkpoint", checkpoint=checkpoint)
utils = _module("torch.utils", data=_data, checkpoint=_checkpoint, __path__=[])
nn = _module("torch.nn", Module=Module, Conv2d=Conv2d, CrossEntropyLoss=CrossEntropyLoss)
optim = _module("torch.optim", AdamW=AdamW, RMSprop=RMSprop, Optimizer=Optimizer)
