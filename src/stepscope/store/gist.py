"""What stays of events that are left out: what others cannot be read without, and last values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch, EventType, Row

__all__ = ["Gist"]

MOST_MEANINGS, MOST_VALUES = 8192, 1024  # the newest of each

# Marks that give other events their meaning, or are told once. Of equal ones the last stays.
_MEANINGS = frozenset(
    (
        names.LOADER, names.WORKER, names.TRANSFORM_NAME, names.LAYER, names.OP_LOGGED,
        names.CHECKPOINT_LAYER, names.STACK_FRAME, names.TRACKED_FRAME, names.HOOK_FAILED,
        names.PROCESS_EXIT, names.CAPTURE_BEGIN, names.CAPTURE_END, names.MEMORY_SEEN,
        names.MEMORY_CUDA, names.MEMORY_HOLDER, names.MEMORY_GARBAGE,
    )
)  # fmt: skip
# Marks whose text begins with the name of what they tell of.
_NAMED = frozenset((names.OP, names.TRAIT))
# What is told only where it has changed, by stack and purpose.
_HELD = frozenset((names.MEMORY_HELD, names.MEMORY_PEAK))
# Of these one value stands for all in the gap: the last.
_SAMPLED = ("process.", "host.", "gpu.", "energy.", "stepscope.", "worker.", "operation.", "heap.")
_SAMPLED_NAMES = frozenset(
    (
        names.METRIC, names.LOSS, names.MEMORY_RSS, names.MEMORY_LIMIT, names.MEMORY_TOTAL,
        names.MEMORY_WINDOW, names.MEMORY_STEP_PEAK,
    )
)  # fmt: skip
_ARG_IS_A_VALUE = ("operation.", "worker.", "memory.", "heap.")
_SPAN = int(EventType.SPAN)


class Gist:
    """`update` with what is left out, in order; `get` the rows that stay."""

    def __init__(self) -> None:
        # By what they tell of, in the order in which that was told last.
        self._meanings: dict[Hashable, Row] = {}
        self._values: dict[Hashable, Row] = {}

    def update(self, batch: Batch) -> None:
        wanted = _wanted(batch.names)
        if not wanted:
            return
        columns = batch.columns
        each = zip(columns["name"].tolist(), columns["type"].tolist(), strict=True)
        for place, (number, kind) in enumerate(each):
            name = wanted.get(number)
            if name is not None and kind != _SPAN:
                self._take(_row(batch, place))

    def _take(self, row: Row) -> None:
        key = _key(row)
        meant = row.name in _MEANINGS or row.name in _NAMED or row.name in _HELD
        rows, most = (self._meanings, MOST_MEANINGS) if meant else (self._values, MOST_VALUES)
        rows.pop(key, None)
        rows[key] = row
        if len(rows) > most:
            del rows[next(iter(rows))]

    def get(self) -> list[Row]:
        return sorted((*self._meanings.values(), *self._values.values()), key=_end_ns)


def _wanted(known: Mapping[int, str]) -> dict[int, str]:
    return {number: name for number, name in known.items() if _is_wanted(name)}


def _is_wanted(name: str) -> bool:
    return (
        (name.startswith(_SAMPLED) and name != names.OWN_LEFT_OUT)
        or name in _SAMPLED_NAMES
        or name in _MEANINGS
        or name in _NAMED
        or name in _HELD
    )


def _key(row: Row) -> Hashable:
    """What an event tells of: a later one with the same key replaces it."""
    if row.name in _NAMED:
        return row.name, row.text.partition("\t")[0]
    if row.name in _HELD:
        return row.name, row.cpu_start_ns, row.cpu_ns, row.flags
    if row.name.startswith(_ARG_IS_A_VALUE) and row.name not in _MEANINGS:
        return row.name, row.text
    return row.name, row.arg, row.text


def _row(batch: Batch, place: int) -> Row:
    values: dict[str, Any] = {column.name: batch.columns[column.name][place] for column in COLUMNS}
    known = batch.names
    values["name"] = known[values["name"]]
    values["text"] = known[values["text"]] if values["text"] else ""
    return Row(**values)


def _end_ns(row: Row) -> int:
    return row.time_ns + row.duration_ns
