"""Where the code of a dataset lies, seen through the wrappers that stand around it."""

from __future__ import annotations

from types import FunctionType
from typing import Any

__all__ = ["source_of_dataset"]

_DEPTH = 8  # wrappers of wrappers; a cycle of datasets must not hang the program
_METHODS = ("__getitems__", "__getitem__", "__iter__")


def source_of_dataset(dataset: Any) -> dict[str, Any]:
    """`dataset` (its class), and `file`, `line`, `function` of what makes a sample, where known."""
    dataset = _innermost(dataset)
    kind = type(dataset)
    found: dict[str, Any] = {"dataset": kind.__qualname__}
    function = _maker(kind)
    if function is not None:
        code = function.__code__
        found["file"] = code.co_filename
        found["line"] = code.co_firstlineno
        found["function"] = code.co_qualname
    return found


def _innermost(dataset: Any) -> Any:
    """The dataset that makes the samples: torch's Subset, ConcatDataset and so on only pass on."""
    for _ in range(_DEPTH):
        if not _is_of_torch(type(dataset)):
            break
        inner = getattr(dataset, "dataset", None)
        if inner is None:
            inner = _first_of(getattr(dataset, "datasets", None))
        if inner is None:
            break
        dataset = inner
    return dataset


def _first_of(datasets: Any) -> Any:
    """ConcatDataset has a list, StackDataset a tuple or a dict; a lazy chain is left alone."""
    if isinstance(datasets, dict):
        datasets = list(datasets.values())
    return datasets[0] if isinstance(datasets, (list, tuple)) and datasets else None


def _is_of_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.utils.data")


def _maker(kind: type) -> FunctionType | None:
    """The method that makes samples; torch's base classes make none."""
    for base in kind.__mro__:
        if _is_of_torch(base) and not _is_of_torch(kind):
            return None
        for name in _METHODS:
            function: Any = vars(base).get(name)
            for _ in range(_DEPTH):  # decorators of the user
                inner = getattr(function, "__wrapped__", None)
                if inner is None:
                    break
                function = inner
            if isinstance(function, FunctionType):
                return function
    return None
