"""What is to come of a run that goes on: when it ends, and when its memory is full."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Final

from stepscope.errors import StepscopeError
from stepscope.model.live import Left
from stepscope.session.live_view import Outlook
from stepscope.store.index import list_runs
from stepscope.store.summary import read_summary_json

if TYPE_CHECKING:
    from stepscope.analyze.loop import Loop
    from stepscope.model.watching import Reading, StepSeen

__all__ = ["MemoryAhead", "OutlookSource", "expected_steps", "stretches_s"]

_KNOWN_S: Final = 10.0  # so long a forecast holds
_PAST_RUNS: Final = 5  # the newest that came to their end
_STRETCHES: Final = 12


class MemoryAhead:
    """A listener of session/feeding.py: when the memory of the first rank is full."""

    def __init__(self) -> None:
        from stepscope.monitor.trends import Outlook as Trend

        self._trend = Trend()
        self.limit_bytes: float | None = None

    def step(self, seen: StepSeen) -> None:
        """Memory is read, not told with steps."""

    def reading(self, reading: Reading) -> None:
        if reading.rank:
            return
        if reading.metric == "memory_bytes":
            self._trend.update(reading.time_ns / 1e9, reading.value)
        elif reading.metric == "memory_limit_bytes":
            self.limit_bytes = reading.value

    def until_full(self) -> Left | None:
        """None: it is not going to be, as far as can be told."""
        found = None if self.limit_bytes is None else self._trend.get(self.limit_bytes)
        return None if found is None else Left(found.seconds, found.low_s, found.high_s)


class OutlookSource:
    """Called for each view; works it out every few seconds only."""

    def __init__(
        self,
        loops: Callable[[], Sequence[Loop]],
        runs: Path,
        command: str,
        memory: MemoryAhead | None = None,
    ) -> None:
        self._loops, self._memory = loops, memory
        self._runs, self._command = runs, command
        self._total: int | None = None
        self._is_total_known = False
        self._until_s = 0.0
        self._last = Outlook()

    def __call__(self) -> Outlook:
        now_s = time.monotonic()
        if now_s >= self._until_s:
            self._until_s = now_s + _KNOWN_S
            memory = self._memory
            self._last = Outlook(
                self._end(),
                None if memory is None else memory.until_full(),
                None if memory is None else memory.limit_bytes,
            )
        return self._last

    def _end(self) -> Left | None:
        from stepscope.monitor.trends import end_estimate

        if not self._is_total_known:
            self._is_total_known = True
            self._total = expected_steps(self._runs, self._command)
        loop = max(self._loops(), key=lambda one: one.steps, default=None)
        if loop is None:
            return None
        found = end_estimate(loop.steps, self._total, stretches_s(loop))
        return None if found is None else Left(*found)


def expected_steps(runs: Path, command: str) -> int | None:
    """How many steps earlier runs of the same command made that came to their end; None: there is
    none to go by."""
    counts: list[int] = []
    for entry in list_runs(runs):
        if entry.command != command or entry.exit_code != 0 or not command:
            continue
        try:
            summary = read_summary_json(Path(entry.path)) or {}
        except (StepscopeError, OSError):
            continue
        steps = summary.get("steps")
        count = steps.get("count") if isinstance(steps, dict) else None
        if isinstance(count, int) and count > 0:
            counts.append(count)
        if len(counts) == _PAST_RUNS:
            break
    return median_low(counts) if counts else None


def stretches_s(loop: Loop) -> list[float]:
    """Seconds for a step, in stretches of the loop that are about equally long."""
    windows = loop.windows
    steps = windows.steps()
    walls_ns = [sum(parts) for parts in zip(*_phases(loop), strict=True)]
    each = max(1, -(-len(steps) // _STRETCHES))
    found = []
    for at in range(0, len(steps), each):
        made = sum(steps[at : at + each])
        if made:
            found.append(sum(walls_ns[at : at + each]) / made / 1e9)
    return found


def _phases(loop: Loop) -> list[list[int]]:
    from stepscope.analyze.phases import COUNT

    return [loop.windows.wall_ns(place) for place in range(COUNT)]
