"""Steps → readings of the metric table: how quick they are and where their time goes, now."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from statistics import median

from stepscope.model.phases import Phase
from stepscope.model.watching import Reading, StepSeen

__all__ = ["StepFigures"]

_RECENT = 32  # ordinary steps of which the median is told


class StepFigures:
    """`update` with every step of one rank, in order.

    window_s: figures are of so much of the loop's time, or of one step that is longer.
    """

    def __init__(self, rank: int, window_s: float = 1.0) -> None:
        self._rank = rank
        self._window_ns = round(window_s * 1e9)
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._seen: set[str] = set()  # phases that there were so far
        self._began_ns = -1  # the window; -1: with the next step
        self._steps = self._number = self._last_ns = 0
        self._phases_ns: Counter[str] = Counter()

    def update(self, seen: StepSeen) -> list[Reading]:
        """What is known with the last step of a window; [] before."""
        if self._began_ns < 0 or seen.number != self._number + 1:  # some were not told
            self._began_ns, self._steps = seen.start_ns, 0
            self._phases_ns.clear()
        self._number, self._last_ns = seen.number, seen.end_ns
        self._steps += 1
        self._phases_ns.update(seen.phases_ns)
        if not seen.is_special:
            self._recent.append(seen.duration_ns)
        if seen.end_ns - self._began_ns < self._window_ns:
            return []
        found = [
            Reading(seen.end_ns, metric, value, label, self._rank, seen.number)
            for metric, value, label in self._figures(seen)
        ]
        self._began_ns, self._steps = seen.end_ns, 0
        self._phases_ns.clear()
        return found

    def rest(self) -> list[Reading]:
        """No step is going to come: how many there were, where the last ones filled no window."""
        if not self._steps:
            return []
        number = self._number
        return [Reading(self._last_ns, "steps_total", float(number), "", self._rank, number)]

    def _figures(self, seen: StepSeen) -> Iterator[tuple[str, float, str]]:
        window_ns = seen.end_ns - self._began_ns
        yield "steps_total", float(seen.number), ""
        yield "steps_per_second", self._steps * 1e9 / window_ns, ""
        if self._recent:
            yield "step_seconds", median(self._recent) / 1e9, ""
        shares = {name: ns / window_ns for name, ns in self._phases_ns.items()}
        self._seen |= set(shares)
        for phase in sorted(self._seen):  # one that does not occur any more takes no time
            yield "phase_ratio", shares.get(phase, 0.0), phase
        yield "input_wait_ratio", shares.get(Phase.INPUT_WAIT, 0.0), ""
        yield "gc_ratio", shares.get(Phase.GC, 0.0), ""
