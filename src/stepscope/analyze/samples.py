"""The samples of some names in a batch."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.model.event import Batch

__all__ = ["samples"]

_COLUMNS = ("time_ns", "arg", "value")


def samples(batch: Batch, wanted: Callable[[str], bool]) -> list[tuple[int, str, int, float]]:
    """(time, name, arg, value) in the order of time: threads reach a batch one after another, and
    several may have sampled the same."""
    times_ns, args, values = (batch.columns[column] for column in _COLUMNS)
    names, found = batch.names, []
    for number, places in batch.by_name.items():
        if wanted(name := names[number]):
            found += [(times_ns[at], number, args[at], values[at], name) for at in places]
    found.sort()
    return [(time_ns, name, arg, value) for time_ns, _, arg, value, name in found]
