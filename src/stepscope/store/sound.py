"""Drops events that no recorder of ours wrote: valid checksums do not make sense of the content."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from math import isfinite
from typing import Final

from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch, EventType
from stepscope.model.event_texts import TEXTS, fits

__all__ = ["sound"]

_LONGEST_NS: Final = 1 << 60  # 36 years: since the start of the machine, and of a span
_RANGES: Final = {
    "time_ns": (0, _LONGEST_NS),
    "duration_ns": (0, _LONGEST_NS),
    # Of allocations and checkpoints: numbers and sizes.
    "cpu_start_ns": (-_LONGEST_NS, _LONGEST_NS),
    "cpu_ns": (-_LONGEST_NS, _LONGEST_NS),
    "type": (min(EventType), max(EventType)),
}
# Counters since the machine started are the largest: 256 CPUs are busy for 1e18 ns in 50 days.
_LARGEST_VALUE: Final = 1e21
_POSITIVE: Final = {names.HOST_CPU_COUNT: 0.01, names.HOST_MEMORY_TOTAL_BYTES: 1.0}  # divisors
# What a program reports about itself need not be a number.
_ANY_VALUE: Final = (names.LOSS, names.METRIC)


def sound(batch: Batch) -> Batch:
    """The batch without events whose times, values, names or texts make no sense. Usually that is
    the batch itself."""
    wrong = set(_out_of_range(batch))
    wrong.update(_without_name(batch))
    wrong.update(_with_wrong_value(batch))
    wrong.update(_with_wrong_text(batch))
    if not wrong:
        return batch
    kept = [place for place in range(batch.count) if place not in wrong]
    columns = {}
    for column in COLUMNS:
        values = batch.columns[column.name]
        columns[column.name] = memoryview(array(column.code, [values[place] for place in kept]))
    return Batch(len(kept), columns, batch.names)


def _out_of_range(batch: Batch) -> Iterator[int]:
    for name, (low, high) in _RANGES.items():
        values = batch.columns[name].tolist()
        if min(values) < low or max(values) > high:
            yield from (place for place, one in enumerate(values) if not low <= one <= high)


def _without_name(batch: Batch) -> Iterator[int]:
    for number in batch.by_name.keys() - batch.names.keys():
        yield from batch.by_name[number]
    texts = batch.columns["text"]
    unknown = set(texts) - batch.names.keys() - {0}
    if unknown:
        yield from (place for place, one in enumerate(texts) if one in unknown)


def _with_wrong_value(batch: Batch) -> Iterator[int]:
    values = batch.columns["value"].tolist()
    for name, place in batch.places(_POSITIVE):
        if not values[place] >= _POSITIVE[name]:
            yield place
    # A sum is finite only if every value is.
    if isfinite(sum(values)) and -_LARGEST_VALUE <= min(values) <= max(values) <= _LARGEST_VALUE:
        return
    known, numbers = batch.names, batch.columns["name"]
    for place, one in enumerate(values):
        # NaN fails the comparison.
        if not abs(one) <= _LARGEST_VALUE and known.get(numbers[place]) not in _ANY_VALUE:
            yield place


def _with_wrong_text(batch: Batch) -> Iterator[int]:
    known, texts = batch.names, batch.columns["text"]
    for number, places in batch.by_name.items():
        name = known.get(number, "")
        if name in TEXTS:
            used = {texts[place] for place in places}
            unfit = {one for one in used if not fits(name, known.get(one, ""))}
            if unfit:
                yield from (place for place in places if texts[place] in unfit)
