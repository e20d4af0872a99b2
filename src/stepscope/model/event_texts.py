"""What the texts of events must look like, by the name of the event (model/names.py).

Whoever reads events from disk drops those whose text is something else, so that the analysis can
split and decode them without a thought. A name that is not listed takes any text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from stepscope.errors import FormatError
from stepscope.model import names, traits
from stepscope.model.plain import Amount, Count, Range, from_json

__all__ = ["TEXTS", "fits"]

_NUMBER: Final = Range(-(1 << 62), 1 << 62)


# How a loader behaves is played through, worker by worker.
_Workers = Annotated[int, Range(0, 512)]


class _LoaderSettings(TypedDict, total=False):
    workers: _Workers | None
    batch_size: Count | None
    prefetch_factor: Count | None
    persistent_workers: bool | None
    pin_memory: bool | None
    iterable: bool | None
    dataset: str | None
    file: str | None
    line: Count | None
    function: str | None


class _Worker(TypedDict, total=False):
    loader: _LoaderSettings | None
    parent: Count | None
    dataset: str | None
    file: str | None
    line: Count | None
    function: str | None


class _CheckpointLayer(NamedTuple):
    layer: str
    file: str | None = None
    line: Count | None = None
    function: str | None = None


class _Garbage(TypedDict, total=False):
    before: Count
    freed: Count
    classes: list[str]


class _Holder(TypedDict, total=False):
    held_by: list[str]


class _Seen(TypedDict, total=False):
    libraries: list[str]
    why: str


class _Optimizer(TypedDict, total=False):
    parameters: Count
    fused: bool | None
    foreach: bool | None
    capturable: bool | None


class _ConvLayout(TypedDict, total=False):
    convolutions: Count
    channels_last: Count
    dims: Count


class _OpsPerStep(TypedDict, total=False):
    ops: Amount | None
    median_us: Amount | None


class _Alternative(TypedDict, total=False):
    now_ms: Amount | None
    then_ms: Amount | None
    ops: Count | None
    dearest: str | None


_TRAITS: Final[Mapping[str, Any]] = {
    traits.ALTERNATIVES: Mapping[str, _Alternative],
    traits.AUTOCAST: str | None,
    traits.COMPILED: bool | None,
    traits.CONV_LAYOUT: _ConvLayout,
    traits.CPU_FEATURES: list[str],
    traits.DTYPES: Mapping[str, Amount],
    traits.FLUSHES_DENORMALS: bool | None,
    traits.INTEROP_THREADS: Count,
    traits.ITEM_CALLS: Amount,
    traits.OPS_PER_STEP: _OpsPerStep,
    traits.OPTIMIZERS: list[_Optimizer],
    traits.THREADS: Count,
}


def _json(kind: Any) -> Callable[[str], bool]:
    def decodes(text: str) -> bool:
        try:
            from_json(kind, text, "")
        except FormatError:
            return False
        return True

    return decodes


def _fields(*numbers: bool, most: bool = True) -> Callable[[str], bool]:
    """Fields between tabs; True: a whole number. most: the last one may hold tabs itself."""

    def splits(text: str) -> bool:
        fields = text.split("\t", len(numbers) - 1 if most else -1)
        return len(fields) == len(numbers) and all(
            _is_number(field) for field, number in zip(fields, numbers, strict=True) if number
        )

    return splits


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    is_short = digits.isascii() and digits.isdigit() and len(digits) < 20
    return is_short and not _NUMBER.problem(int(text))


def _trait(text: str) -> bool:
    name, _, fact = text.partition("\t")
    return _json(_TRAITS.get(name, Any))(fact)


_FRAME: Final = _fields(True, True, False, False)

TEXTS: Final[Mapping[str, Callable[[str], bool]]] = {
    names.STACK_FRAME: _FRAME,
    names.TRACKED_FRAME: _FRAME,
    names.LAYER: _fields(False, False, True, most=False),
    names.OP: _fields(False, True, True, most=False),
    names.PYTHON_LINE: _fields(True, False),
    names.TRAIT: _trait,
    names.LOADER: _json(_LoaderSettings),
    names.WORKER: _json(_Worker),
    names.OP_LOGGED: _json(Mapping[str, Any]),
    names.CHECKPOINT_LAYER: _json(_CheckpointLayer),
    names.MEMORY_TOTAL: _json(Mapping[str, Count]),
    names.MEMORY_SEEN: _json(_Seen),
    names.MEMORY_GARBAGE: _json(_Garbage),
    names.MEMORY_HOLDER: _json(_Holder),
    names.CAPTURE_BEGIN: _json(Mapping[str, Any]),
    names.CAPTURE_END: _json(Mapping[str, Any]),
    names.CAPTURE_MEMORY: _json(Mapping[str, Any]),
    names.CHECKPOINTING_EVENT: _fields(False, False),
    **dict.fromkeys(
        (
            names.OPERATION, names.OPERATION_BEGIN, names.OPERATION_CALLS, names.OPERATION_FAILED,
            names.OPERATION_WALL_NS, names.OPERATION_USER_NS, names.OPERATION_SYSTEM_NS,
            names.OPERATION_SHORTEST_NS, names.OPERATION_LONGEST_NS, names.OPERATION_FLOPS,
        ),
        bool,
    ),
}  # fmt: skip


@lru_cache(maxsize=4096)
def _fits(name: str, text: str) -> bool:
    return TEXTS[name](text)


def fits(name: str, text: str) -> bool:
    """Whether an event of this name may have this text. Cached for short ones: few are new."""
    return _fits(name, text) if len(text) < 500 else TEXTS[name](text)
