"""What a device did meanwhile: time in which it worked belongs to the phase of its work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.analyze.phases import Timeline
from stepscope.analyze.spans import DEVICE, PHASE_OF_CODE, PHASES, SpanRow
from stepscope.model.phases import Phase

__all__ = ["overlay"]

_EVALUATION = PHASES.index(Phase.EVALUATION)
_TRANSFER = PHASES.index(Phase.TRANSFER)


def overlay(line: Timeline, device_rows: Iterable[SpanRow]) -> Timeline:
    """The timeline with the device's work laid over the host's pieces; evaluation stays so."""
    busy = _busy(device_rows, line.times[0], line.times[-1])
    if not busy:
        return line
    made = Timeline(line.times[0], line.clocks[0])
    made.noted, made.blind_backward = line.noted, line.blind_backward
    for place, phase in enumerate(line.phases):
        start, end = line.times[place], line.times[place + 1]
        for until, work in _pieces(busy, start, end):
            made.times.append(until)
            made.clocks.append(line.clocks[place + 1] if until == end else -1)
            made.phases.append(phase if work is None or phase == _EVALUATION else work)
    return made


def _pieces(
    busy: Sequence[tuple[int, int, int]], start: int, end: int
) -> Iterable[tuple[int, int | None]]:
    """(end, phase of the device's work or None) of each part of a stretch of time."""
    for work_start, work_end, work in busy:
        if work_end <= start or work_start >= end:
            continue
        if work_start > start:
            yield work_start, None
        start = min(work_end, end)
        yield start, work
    if start < end:
        yield end, None


def _busy(rows: Iterable[SpanRow], start: int, end: int) -> list[tuple[int, int, int]]:
    """When the device worked and on what, without overlaps; work comes before copying."""
    work = [
        (max(row[0], start), min(row[1], end), PHASE_OF_CODE[row[2] - DEVICE])
        for row in rows
        if row[0] < end and row[1] > start
    ]
    work.sort(key=lambda one: (one[2] == _TRANSFER, one[0]))
    taken: list[tuple[int, int, int]] = []
    for begin, stop, phase in work:
        free = list(_pieces(taken, begin, stop))
        at = begin
        for until, other in free:
            if other is None:
                taken.append((at, until, phase))
            at = until
        taken.sort()
    return taken
