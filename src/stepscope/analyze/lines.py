"""Stack samples and the runs of operations → where the time of each operation went, by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stepscope.analyze.line_times import Frame, line_profile
from stepscope.model import names
from stepscope.model.event import Batch, Flag
from stepscope.model.lines import LineProfile

__all__ = ["LineFold"]

# Threads empty their rings in turn, once a second: what happened first may arrive last.
_TAIL_NS = 2_000_000_000
_SAME_START_NS = 1_000_000  # between a begin mark and the start of the span of the same run
_COLUMNS = ("name", "time_ns", "duration_ns", "arg", "value", "text", "track", "flags")
_WANTED = frozenset({names.STACK, names.STACK_FRAME, names.OPERATION, names.OPERATION_BEGIN})
_BEGIN, _SAMPLE, _END = 0, 1, 2  # in this order at the same time


class _Event(NamedTuple):
    time_ns: int
    kind: int
    track: int
    identity: str = ""
    number: int = 0  # sample: of the stack; begin: depth of the stack that entered, 0: not known
    value_ns: int = 0  # sample: the time it stands for; end: the start of the run


class _Run(NamedTuple):
    track: int
    began_ns: int
    depth: int


class _Attribution:
    """Which runs are open, and what was spent in them: {(depth, stack): [ns, samples]} of each."""

    def __init__(self) -> None:
        self.runs: dict[str, list[_Run]] = {}
        self.spent: dict[str, dict[tuple[int, int], list[int]]] = {}

    def copy_of(self, identity: str) -> _Attribution:
        """As far as it is about one operation."""
        made = _Attribution()
        if identity in self.runs:
            made.runs[identity] = list(self.runs[identity])
        spent = self.spent.get(identity, {})
        made.spent[identity] = {stack: list(times) for stack, times in spent.items()}
        return made

    def apply(self, event: _Event) -> None:
        if event.kind == _SAMPLE:
            self._sample(event)
        elif event.kind == _BEGIN:
            run = _Run(event.track, event.time_ns, event.number)
            self.runs.setdefault(event.identity, []).append(run)
        else:
            self._end(event)

    def _sample(self, event: _Event) -> None:
        for identity, runs in self.runs.items():
            # The outermost counts: a block that is entered again within itself is the same time.
            run = next((run for run in runs if run.track == event.track), None)
            if run is None:
                continue
            spent = self.spent.setdefault(identity, {})
            times = spent.setdefault((run.depth, event.number), [0, 0])
            times[0] += event.value_ns
            times[1] += 1

    def _end(self, event: _Event) -> None:
        """Close the run that began when this one did, wherever it was entered."""
        runs = self.runs.get(event.identity)
        if not runs:
            return

        def unlike(run: _Run) -> tuple[bool, bool, int]:
            apart_ns = abs(run.began_ns - event.value_ns)
            return apart_ns > _SAME_START_NS, run.track != event.track, apart_ns

        runs.remove(min(runs, key=unlike))
        if not runs:
            del self.runs[event.identity]


class LineFold:
    """`update` with every batch of one process; `get` what is known of an operation.

    A sample counts for the operations that its own thread had entered and not left when it was
    taken. Samples are not kept: only those of the last 2 s wait for what may arrive late.

    The arg of a begin mark is the depth of the stack that entered: how many Python frames there
    were, that with the block included. Frames outside of it are left out; 0: not known, all count.
    """

    def __init__(self) -> None:
        self._frames: dict[int, Frame] = {}
        self._waiting: list[_Event] = []
        self._latest_ns = 0
        self._settled = _Attribution()

    def update(self, batch: Batch) -> None:
        self._waiting.extend(self._events(batch))
        self._waiting.sort()
        if self._waiting:
            self._latest_ns = max(self._latest_ns, self._waiting[-1].time_ns)
        settled = 0
        for event in self._waiting:
            if event.time_ns > self._latest_ns - _TAIL_NS:
                break
            self._settled.apply(event)
            settled += 1
        del self._waiting[:settled]

    def get(self, identity: str) -> LineProfile:
        """The time of all its runs so far, those that go on included."""
        attribution = self._settled.copy_of(identity)
        for event in self._waiting:
            if event.kind == _SAMPLE or event.identity == identity:
                attribution.apply(event)
        return line_profile(attribution.spent.get(identity, {}), self._frames)

    def _events(self, batch: Batch) -> Iterator[_Event]:
        wanted = {number: name for number, name in batch.names.items() if name in _WANTED}
        if not wanted:
            return
        columns = (batch.columns[name].tolist() for name in _COLUMNS)
        for number, *row in zip(*columns, strict=True):
            name = wanted.get(number)
            if name == names.STACK_FRAME:
                self._learn(row[2], batch.names.get(row[4], ""))
            elif name is not None and not row[6] & Flag.OPEN:
                yield _event(name, row, batch.names.get(row[4], ""))

    def _learn(self, number: int, text: str) -> None:
        caller, line, function, file = text.split("\t", 3)
        self._frames[number] = Frame(int(caller), file, function, int(line))


def _event(name: str, row: list[Any], text: str) -> _Event:
    time_ns, duration_ns, arg, value, _, track, _ = row
    if name == names.STACK:
        return _Event(time_ns, _SAMPLE, track, number=arg, value_ns=round(value))
    if name == names.OPERATION_BEGIN:
        return _Event(time_ns, _BEGIN, track, text, number=arg)
    return _Event(time_ns + duration_ns, _END, track, text, value_ns=time_ns)
