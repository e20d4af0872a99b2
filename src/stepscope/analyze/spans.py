"""The spans of the loop as the analysers hold them: one flat tuple each, names as small numbers."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add
from typing import NamedTuple, TypeAlias

from stepscope.model import names
from stepscope.model.event import Batch, Flag
from stepscope.model.phases import PHASE_OF_SPAN, Phase

__all__ = [
    "BACKWARD",
    "DEVICE",
    "EVALUATION",
    "FAILED",
    "FORWARD",
    "GC",
    "INPUT_ITER",
    "INPUT_NEXT",
    "LOOP_NAMES",
    "NAME_OF_CODE",
    "OPEN",
    "OPTIMIZER",
    "OPTIMIZER_REST",
    "OPTIMIZER_SCALE",
    "OWN",
    "PHASES",
    "PHASE_OF_CODE",
    "SAVE",
    "TRANSFER",
    "LoopSpan",
    "SpanRow",
    "end_clock",
    "loop_spans",
]

# Codes of spans. From INPUT_ITER on the fold keeps figures of the single span.
FORWARD, BACKWARD, OPTIMIZER, OPTIMIZER_SCALE, OPTIMIZER_REST, EVALUATION = 1, 2, 3, 4, 5, 6
INPUT_ITER, INPUT_NEXT, TRANSFER, SAVE, GC, OWN = 7, 8, 9, 10, 11, 12
DEVICE = 32  # added to the code of what the device did

FAILED = int(Flag.FAILED)
OPEN = int(Flag.OPEN)

_CODE_OF_NAME: dict[str, int] = {
    names.FORWARD: FORWARD,
    names.BACKWARD: BACKWARD,
    names.OPTIMIZER_STEP: OPTIMIZER,
    names.OPTIMIZER_SCALE: OPTIMIZER_SCALE,
    names.OPTIMIZER_ZERO: OPTIMIZER_REST,
    names.OPTIMIZER_CLIP: OPTIMIZER_REST,
    names.INPUT_ITER: INPUT_ITER,
    names.INPUT_NEXT: INPUT_NEXT,
    names.TRANSFER: TRANSFER,
    names.SAVE: SAVE,
    names.GC: GC,
    names.OWN_LOOK: OWN,
}
NAME_OF_CODE: dict[int, str] = {code: name for name, code in _CODE_OF_NAME.items()}

PHASES: tuple[Phase, ...] = tuple(Phase)
# code of a span → place of its phase in PHASES
PHASE_OF_CODE: dict[int, int] = {
    code: PHASES.index(PHASE_OF_SPAN[name]) for name, code in _CODE_OF_NAME.items()
} | {EVALUATION: PHASES.index(Phase.EVALUATION)}

_CODE_OF_NAME |= {names.DEVICE_PREFIX + name: DEVICE + code for name, code in _CODE_OF_NAME.items()}
LOOP_NAMES = frozenset((*_CODE_OF_NAME, names.LOADER))  # of events that say something of a loop


class LoopSpan(NamedTuple):
    """A span. `cpu_start_ns`: the CPU clock of its thread at the start, `cpu_ns`: what it ran; -1:
    not read. A clock that was read at the end alone: see `end_clock`."""

    start_ns: int
    end_ns: int
    code: int
    arg: int = 0
    value: float = 0.0
    cpu_start_ns: int = -1
    cpu_ns: int = -1
    flags: int = 0
    track: int = 0


# What flows is a plain tuple with the fields of LoopSpan: zip makes it without a Python call.
SpanRow: TypeAlias = tuple[int, int, int, int, float, int, int, int, int]


def end_clock(cpu_start_ns: int, cpu_ns: int) -> int:
    """The CPU clock at the end of a span; -1: not read (model/event.py, cpu_start_ns)."""
    if cpu_start_ns < 0:
        return -2 - cpu_start_ns
    return cpu_start_ns + cpu_ns if cpu_ns >= 0 else -1


def loop_spans(batch: Batch) -> list[SpanRow]:
    """The spans of a batch that say something about the loop, in the order in which they ended."""
    codes = _codes(batch)
    if codes is None:
        return []
    columns = batch.columns
    starts = columns["time_ns"].tolist()
    rows = zip(
        starts,
        map(add, starts, columns["duration_ns"].tolist()),
        map(codes.__getitem__, columns["name"].tolist()),
        columns["arg"].tolist(),
        columns["value"].tolist(),
        columns["cpu_start_ns"].tolist(),
        columns["cpu_ns"].tolist(),
        columns["flags"].tolist(),
        columns["track"].tolist(),
        strict=True,
    )
    return [row for row in rows if row[2]]


def _codes(batch: Batch) -> Mapping[int, int] | None:
    """Code of each name number in the batch, 0 for other names; None: all are other names."""
    known = batch.names
    codes = {
        number: _CODE_OF_NAME.get(known[number], 0)
        for number in set(batch.columns["name"].tolist())
    }
    return codes if any(codes.values()) else None
