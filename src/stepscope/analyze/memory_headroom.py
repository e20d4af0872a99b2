"""How far it is to the limit, and when memory runs out if it goes on like this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepscope.analyze.growth import judge_growth
from stepscope.analyze.memory_events import LimitPoint, StepMemory
from stepscope.analyze.memory_growth import evenly
from stepscope.model.memory import Growing, Headroom
from stepscope.stats.trend import trend

__all__ = ["headroom"]

LAST: Final = 8  # steps, from which what comes and goes within a step is taken
EXPLAINS: Final = 0.5  # of the growth of the process, that the lines which leak have to explain


def headroom(
    limits: Sequence[LimitPoint], steps: Sequence[StepMemory], growing: Sequence[Growing]
) -> Headroom | None:
    """None: no limit is known. The limit that was nearest at the last window counts."""
    if not limits:
        return None
    last = limits[-1]
    same = [point for point in limits if (point.kind, point.limit_bytes) == last[1:3]]
    rate = _rate(same, growing)
    found = Headroom(last.limit_bytes, last.kind, last.used_bytes)
    if rate is None:
        return found
    return found._replace(bytes_per_step=rate, steps=_steps(found, rate, same, steps))


def _rate(points: Sequence[LimitPoint], growing: Sequence[Growing]) -> float | None:
    """Bytes a step; None: it does not grow for good. The lines that leak are exact, where they
    explain what the process takes; what leaks elsewhere shows in the process alone."""
    leaked = sum(one.bytes_per_step for one in growing if one.verdict == "leak")
    process = judge_growth([(float(point.step), float(point.used_bytes)) for point in points])
    slope = process.slope if process.leaks and process.slope else 0.0
    if leaked and leaked >= EXPLAINS * slope:
        return leaked
    return slope or None


def _steps(
    found: Headroom, rate: float, points: Sequence[LimitPoint], steps: Sequence[StepMemory]
) -> tuple[float, float, float]:
    """It ends when the highest point within a step reaches the limit."""
    within = max((one.most_bytes - one.end_bytes for one in steps[-LAST:]), default=0)
    left = max(0.0, found.limit_bytes - found.used_bytes - within)
    rates = sorted((rate, *_halves(points, rate)))
    return left / rates[-1], left / rate, left / rates[0]


def _halves(points: Sequence[LimitPoint], rate: float) -> list[float]:
    """The slopes of the two halves of the run, as far as they are slopes upwards."""
    chosen = set(evenly([point.step for point in points]))
    kept = [point for point in points if point.step in chosen]
    middle = len(kept) // 2
    lines = (
        trend([float(one.step) for one in half], [float(one.used_bytes) for one in half])
        for half in (kept[middle // 2 : middle + middle // 2], kept[middle:])
    )
    return [line.slope for line in lines if line is not None and line.slope > rate / 4]
