"""Timeline → histories in equal pieces of time, few enough for a line of a terminal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from stepscope.analyze.live import NO_TRAINING
from stepscope.model.live import LIVE_POINTS, History, Unit
from stepscope.model.phases import Phase
from stepscope.model.timeline import ResourcePoint, Timeline

__all__ = ["histories", "in_pieces"]

Point = tuple[float, float]  # when, what


def histories(timeline: Timeline, most: int = LIVE_POINTS) -> tuple[History, ...]:
    """Steps and resources over the loop; what was not measured at all is left out."""
    pieces = min(most, max(len(timeline.buckets), len(timeline.points)))
    if not pieces or timeline.wall_ms <= 0:
        return ()
    found = [*_of_steps(timeline, pieces), *_of_resources(timeline, pieces)]
    return tuple(one for one in found if any(point is not None for point in one.points))


def in_pieces(
    points: Sequence[Point], start: float, end: float, pieces: int, join: Callable[..., float]
) -> tuple[float | None, ...]:
    """Samples, each of which stands for the time since the one before it; none: no pieces."""
    if not points or end <= start:
        return ()
    times = [time for time, _ in points]
    made, first = [], 0
    for number in range(1, pieces + 1):
        behind = bisect_right(times, start + (end - start) * number / pieces)
        inside = [value for _, value in points[first:behind]]
        made.append(join(inside) if inside else points[min(first, len(points) - 1)][1])
        first = behind
    return tuple(made)


def _of_steps(timeline: Timeline, pieces: int) -> Iterable[History]:
    width_ms = timeline.wall_ms / pieces
    training = [place for place, name in enumerate(timeline.phases) if name not in NO_TRAINING]
    waits = [place for place, name in enumerate(timeline.phases) if name == Phase.INPUT_WAIT]
    steps, trained_ms, waited_ms = ([0.0] * pieces for _ in range(3))
    for bucket in timeline.buckets:
        lasted_ms = sum(bucket.ms)
        parts = _parts(bucket.start_ms / width_ms, (bucket.start_ms + lasted_ms) / width_ms, pieces)
        for piece, part in parts:
            steps[piece] += bucket.steps * part
            trained_ms[piece] += sum(bucket.ms[place] for place in training) * part
            waited_ms[piece] += sum(bucket.ms[place] for place in waits) * part
    each = (t / s if s > 0 else None for t, s in zip(trained_ms, steps, strict=True))
    yield History("step time", Unit.MILLISECONDS, tuple(each))
    yield History("steps/s", Unit.PER_SECOND, tuple(s * 1000 / width_ms for s in steps))
    if waits:
        shares = tuple(min(1.0, ms / width_ms) for ms in waited_ms)
        yield History("input wait", Unit.SHARE, shares)


def _parts(begin: float, end: float, pieces: int) -> Iterable[tuple[int, float]]:
    """Which pieces something lies in, and which part of it in each. Times in pieces."""
    if end <= begin:
        return
    for piece in range(max(0, int(begin)), min(pieces, int(end) + 1)):
        part = (min(end, piece + 1) - max(begin, piece)) / (end - begin)
        if part > 0:
            yield piece, part


def _of_resources(timeline: Timeline, pieces: int) -> Iterable[History]:
    def made(
        name: str,
        unit: Unit,
        join: Callable[..., float],
        *fields: Callable[[ResourcePoint], float | None],
    ) -> History:
        points = [
            (point.at_ms, sum(known))
            for point in timeline.points
            if (known := [value for field in fields if (value := field(point)) is not None])
        ]
        return History(name, unit, in_pieces(points, 0.0, timeline.wall_ms, pieces, join))

    yield made("CPU", Unit.CPUS, _mean, lambda p: p.program_cores, lambda p: p.children_cores)
    yield made(
        "memory", Unit.BYTES, max, lambda p: p.program_rss_bytes, lambda p: p.children_rss_bytes
    )
    yield made("GPU", Unit.SHARE, _mean, lambda p: p.gpu_busy_share)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
