"""Samples of a thread that trains → which phase each belongs to, by the rules of the loop."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from stepscope.analyze.loop import Loop
from stepscope.analyze.module_use import ModuleUse
from stepscope.analyze.phases import COUNT, Timeline, attribute
from stepscope.analyze.spans import BACKWARD, FAILED, FORWARD, OPTIMIZER, PHASES, SpanRow
from stepscope.analyze.steps import FoundBy, loop_start
from stepscope.model import names
from stepscope.model.phases import PHASE_OF_SPAN, Phase

__all__ = ["PhaseTimes", "Sample", "ThreadPhases"]

SAMPLES, SPANS = 100_000, 40_000  # that may wait for the end of a step
FEW = 5_000  # the same, of a thread that has shown no sign of steps
RECENT = 6_000  # samples that are remembered one by one, where somebody watches: a minute of them
_BETWEEN, _FORWARD = PHASES.index(Phase.PYTHON_BETWEEN), PHASES.index(Phase.FORWARD)
_INSIDE = {
    names.SAMPLE: Phase.INPUT_WAIT,
    names.TRANSFORM: Phase.INPUT_WAIT,
    names.COLLATE: Phase.INPUT_WAIT,
    names.DESERIALISE: Phase.INPUT_WAIT,
    names.PIN: Phase.INPUT_WAIT,
    names.LAYER_FORWARD: Phase.FORWARD,
    names.LAYER_BACKWARD: Phase.BACKWARD,
}
_PHASE_OF_TAG = {name: PHASES.index(phase) for name, phase in (PHASE_OF_SPAN | _INSIDE).items()}


class Sample(NamedTuple):
    """`tag`: name of the innermost span that was open, "": none; `stack`: of its process."""

    time_ns: int
    tag: str
    stack: int
    native: bool
    ns: int


class PhaseTimes(dict[tuple[int, int, bool], list[int]]):
    """(place in PHASES, stack, in C) → [ns, samples]"""

    def count(self, phase: int, sample: Sample) -> None:
        times = self.setdefault((phase, sample.stack, sample.native), [0, 0])
        times[0] += sample.ns
        times[1] += 1


class ThreadPhases:
    """`update` with spans and samples of one thread as they arrive; `get` the times of its loop.

    Samples wait for the end of a step, because what a span was is known only then (a forward
    without gradients is evaluation if no backward follows). So steps are attributed as the loop
    itself is; the tag decides where no span that ended covers the sample. What came before the loop
    is thrown away with the first optimizer step, what came after it still waits when it is asked.
    """

    def __init__(self, *, keeps_recent: bool = False) -> None:
        self._recent: deque[tuple[int, Sample]] = deque(maxlen=RECENT if keeps_recent else 0)
        self._samples: deque[Sample] = deque()
        self._rows: deque[SpanRow] = deque()
        self._steps: deque[int] = deque()  # ends of optimizer steps that were not settled yet
        self._use = ModuleUse()
        self._stepped: set[int] = set()  # the optimizers that stepped in the step under way
        self._from_ns = 0
        self._has_steps = False
        self._spent = PhaseTimes()
        self.signs = (0, 0, 0)  # optimizer steps, backwards, forwards: who has most trains

    def update(self, rows: Sequence[SpanRow], samples: Iterable[Sample], settled_ns: int) -> None:
        """`settled_ns`: what happened up to then has arrived."""
        self._samples.extend(samples)
        for row in rows:
            self._take(row)
        step_ns = 0
        while self._steps and self._steps[0] <= settled_ns:
            step_ns = self._steps.popleft()
        if step_ns:
            self._settle(step_ns)
        elif len(self._samples) > self._most(SAMPLES) or len(self._rows) > self._most(SPANS):
            self._settle(max(self._from_ns, settled_ns))

    def _most(self, may_wait: int) -> int:
        return may_wait if any(self.signs) else FEW

    def _take(self, row: SpanRow) -> None:
        code = row[2]
        self._rows.append(row)
        if row[7] & FAILED:
            return
        self._use.take(row)
        if code == OPTIMIZER:
            if row[3] in self._stepped:  # this optimizer comes round again: a step is over
                self._use.step_ended()
                self._stepped.clear()
            self._stepped.add(row[3])
            self._steps.append(row[1])
            if not self._has_steps:
                self._begin()
        steps, backwards, forwards = self.signs
        self.signs = (
            steps + (code == OPTIMIZER),
            backwards + (code == BACKWARD),
            forwards + (code == FORWARD),
        )

    def _begin(self) -> None:
        """The first optimizer step: what led to it is the loop, what was before is start-up."""
        self._has_steps = True
        self._spent.clear()
        self._from_ns = loop_start(list(self._rows), FoundBy.OPTIMIZER)

    def _settle(self, until_ns: int) -> None:
        rows = list(takewhile(lambda row: row[1] <= until_ns, self._rows))
        samples = list(takewhile(lambda one: one.time_ns <= until_ns, self._samples))
        for _ in rows:
            self._rows.popleft()
        for _ in samples:
            self._samples.popleft()
        use = self._use if any(self.signs[:2]) else None
        self._attribute(self._spent, rows, samples, until_ns, use)
        self._from_ns = until_ns

    def get(self, loop: Loop) -> PhaseTimes:
        """The times of the loop; nothing changes here."""
        spent = PhaseTimes({key: list(times) for key, times in self._spent.items()})
        inside = [one for one in self._samples if loop.start_ns < one.time_ns <= loop.end_ns]
        use = self._use if loop.found_by >= FoundBy.BACKWARD else None
        self._attribute(spent, self._rows, inside, loop.end_ns, use)
        return spent

    def since(self, start_ns: int, until_ns: int) -> PhaseTimes:
        """Of the last minute, what lies between these times; samples that still wait for the end
        of their step by what was open then. Nothing changes here."""
        spent = PhaseTimes()
        for phase, one in self._recent:
            if start_ns < one.time_ns <= until_ns:
                spent.count(phase, one)
        for one in self._samples:
            if start_ns < one.time_ns <= until_ns:
                spent.count(_PHASE_OF_TAG.get(one.tag, _BETWEEN), one)
        return spent

    def _attribute(
        self,
        spent: PhaseTimes,
        rows: Iterable[SpanRow],
        samples: list[Sample],
        until_ns: int,
        use: ModuleUse | None,
    ) -> None:
        from_ns = self._from_ns
        if not samples or until_ns <= from_ns:
            return
        line = attribute(rows, from_ns, until_ns, -1, use)
        phases = _phases_of(line)
        for one in samples:
            if one.time_ns <= from_ns:
                continue
            place = min(bisect_right(line.times, one.time_ns) - 1, len(phases) - 1)
            phase = phases[place]
            if phase == _BETWEEN:  # of a span that goes on, or was dropped, only the tag tells
                phase = _PHASE_OF_TAG.get(one.tag, _BETWEEN)
            spent.count(phase, one)
            if spent is self._spent:
                self._recent.append((phase, one))


def _phases_of(line: Timeline) -> list[int]:
    """The phase of each piece. Before a backward the loss is computed, which is forward; a piece
    that rather waited than ran is Python between."""
    found = []
    for place, phase in enumerate(line.phases):
        if phase >= COUNT:
            before, after = line.clocks[place : place + 2]
            lasted_ns = line.times[place + 1] - line.times[place]
            waited = before >= 0 and after >= 0 and 2 * (after - before) < lasted_ns
            phase = _BETWEEN if waited else _FORWARD
        found.append(phase)
    return found
