"""The samples of some names in a batch."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.model.event import Batch

__all__ = ["samples"]

_COLUMNS = ("time_ns", "name", "arg", "value")


def samples(batch: Batch, wanted: Callable[[str], bool]) -> list[tuple[int, str, int, float]]:
    """(time, name, arg, value) in the order of time: threads reach a batch one after another, and
    several may have sampled the same."""
    names = {number: name for number, name in batch.names.items() if wanted(name)}
    if not names:
        return []
    rows = zip(*(batch.columns[column].tolist() for column in _COLUMNS), strict=True)
    found = sorted(row for row in rows if row[1] in names)
    return [(time_ns, names[number], arg, value) for time_ns, number, arg, value in found]
