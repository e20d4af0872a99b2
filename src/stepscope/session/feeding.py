"""Tells a monitor what the processes of a run record, as it is read back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from stepscope.analyze.readings import SAMPLE_NAMES, SampleReadings
from stepscope.analyze.spans import LOOP_NAMES
from stepscope.analyze.step_figures import StepFigures
from stepscope.analyze.steps_seen import StepsSeen
from stepscope.analyze.tally import OnStep
from stepscope.analyze.told import PROGRAM_NAMES, ProgramReadings
from stepscope.collect.limits import OwnLimits
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.model.watching import Reading, StepSeen, StepsPassed
from stepscope.session.step_budget import StepBudget

__all__ = ["Feed", "Hears", "Newest", "memory_limit_bytes"]

_Key: TypeAlias = tuple[str, int, int]  # host, pid, when it began
_LOOP, _TOLD, _SAMPLES, _EXIT, _CAPTURES = 1, 2, 4, 8, 16  # what events are about
_CAPTURE = (names.CAPTURE_BEGIN, names.CAPTURE_END)
_GOES_ON = 1 << 62
_MOST_PROCESSES = 4096  # that are followed at a time; far more ranks than this end elsewhere


class Hears(Protocol):
    """What is told: a monitor (monitor/core.py), or whoever wants to know the same."""

    def step(self, seen: StepSeen) -> None: ...
    def reading(self, reading: Reading) -> None: ...


class Newest:
    """Keeps the newest reading of each series until somebody takes them."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, int], Reading] = {}

    def step(self, seen: StepSeen) -> None:
        """Readings are made of steps elsewhere."""

    def reading(self, reading: Reading) -> None:
        self._last[reading.metric, reading.label, reading.rank] = reading

    def take(self) -> list[Reading]:
        taken, self._last = list(self._last.values()), {}
        return taken


@runtime_checkable
class HearsOfEnds(Protocol):
    """Wants to know that the process of a rank that trained is gone."""

    def left(self, rank: int) -> None: ...


@runtime_checkable
class HearsOfPassed(Protocol):
    """Wants to know of steps that nobody looked at."""

    def passed(self, steps: StepsPassed) -> None: ...


class Feed:
    """A follower (session/inside.py): `update` with what each process recorded, in its order.

    Samples of the machine are taken from the launcher where there is one (`has_launcher`), else
    from the program: the sums of two samplers do not mix. Of a rank the first process that trains
    is told of, until it ends.

    is_told_steps: whoever calls `update` folds the loops anyway, and tells `on_step_of` of them
    before. budget: what looking at steps may cost; None: anything. window_s: what is told about
    steps in general is of so much time.
    """

    def __init__(
        self,
        *listeners: Hears,
        has_launcher: bool = False,
        is_told_steps: bool = False,
        budget: StepBudget | None = None,
        window_s: float = 1.0,
    ) -> None:
        self._listeners = listeners
        self._sampler = "launcher" if has_launcher else "program"
        self._folds = not is_told_steps
        self._budget, self._window_s = budget, window_s
        self.after_fork()

    def after_fork(self) -> None:
        """A forked child has nothing of its parent's."""
        self._processes: dict[_Key, _Process] = {}
        self._trains: dict[int, _Process] = {}  # rank → whose steps are told
        self._ranks: dict[int, int] = {}  # pid → rank, of processes that record
        self._lost: dict[int, float] = {}  # rank → events
        self._samples = SampleReadings(self._rank_of, memory_limit_bytes())

    def add(self, listener: Hears) -> None:
        """From now on it is told too."""
        self._listeners += (listener,)

    @property
    def untold_steps(self) -> int:
        """Of those that train: steps that were passed by, since the last one that was told."""
        return sum(one.steps.untold for one in self._trains.values())

    def on_step_of(self, process: ProcessInfo) -> OnStep:
        """What a fold of that process's loop is to tell of its steps."""
        return self._process(process).steps.take

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        one = self._process(process)
        for batch in batches:
            topics = _topics(batch)
            if topics & _CAPTURES:
                one.note_captures(batch)
            self._tell(one, batch, topics)
            if topics & _EXIT:
                self._forget(_key(process))

    def _process(self, process: ProcessInfo) -> _Process:
        one = self._processes.get(_key(process))
        if one is None:
            one = _Process(process, folds=self._folds, window_s=self._window_s)
            self._processes[_key(process)] = one
            if process.role == "program":
                self._ranks[process.pid] = process.rank
            self._make_room()
        return one

    def _tell(self, one: _Process, batch: Batch, topics: int) -> None:
        """Most batches are about one thing: who has nothing to do with it is not asked."""
        role = one.process.role
        if role == "program":
            if topics & _LOOP:
                self._tell_steps(one, batch)
            if topics & _TOLD:
                lost = one.told.lost
                self._read(one.told.update(batch))
                if one.told.lost > lost:
                    self._count_lost(one.process.rank, one.told.lost - lost, batch)
        if role == self._sampler and topics & _SAMPLES:
            self._read(self._samples.update(batch))

    def _tell_steps(self, one: _Process, batch: Batch) -> None:
        if self._budget is None:
            self._look_at(one, batch)
            return
        rows = self._budget.rows(batch.count, one.steps.rows_per_step)
        if rows:
            with self._budget:
                self._look_at(one, batch.part(0, rows))
        if rows < batch.count:
            passed = one.steps.skip(batch.part(rows, batch.count))
            if passed is not None and self._trains.get(one.process.rank) is one:
                one.last_ns = passed.end_ns
                for listener in self._listeners:
                    if isinstance(listener, HearsOfPassed):
                        listener.passed(passed)

    def _look_at(self, one: _Process, batch: Batch) -> None:
        for seen in one.steps.update(batch):
            if self._holds(one):
                one.last_ns = seen.end_ns
                self._step(one, one.marked(seen))

    def _holds(self, one: _Process) -> bool:
        """Whether it is the one of its rank that is told of. Who was killed says no farewell: a
        process that began after the last step of the other has taken its place."""
        holder = self._trains.setdefault(one.process.rank, one)
        if holder is not one and one.process.monotonic_ns > holder.last_ns:
            self._forget(_key(holder.process))
            self._trains[one.process.rank] = one
            return True
        return holder is one

    def _step(self, one: _Process, seen: StepSeen) -> None:
        for listener in self._listeners:
            listener.step(seen)
        self._read(one.figures.update(seen))

    def _read(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            for listener in self._listeners:
                listener.reading(reading)

    def _count_lost(self, rank: int, events: float, batch: Batch) -> None:
        total = self._lost[rank] = self._lost.get(rank, 0.0) + events
        last_ns = batch.columns["time_ns"][-1]
        self._read([Reading(last_ns, "events_lost_total", total, rank=rank)])

    def _make_room(self) -> None:
        """Those that were killed never say that they ended: the oldest is taken for one of them."""
        while len(self._processes) > _MOST_PROCESSES:
            trains = list(self._trains.values())
            oldest = next(iter(self._processes))
            idle = (key for key, one in self._processes.items() if one not in trains)
            self._forget(next(idle, oldest))

    def _forget(self, key: _Key) -> None:
        """Workers come and go with every epoch: of one that has ended nothing is kept."""
        one = self._processes.pop(key, None)
        if one is not None:
            self._read(one.figures.rest())
            self._ranks.pop(one.process.pid, None)
            if self._trains.get(one.process.rank) is one:
                del self._trains[one.process.rank]
                for listener in self._listeners:
                    if isinstance(listener, HearsOfEnds):
                        listener.left(one.process.rank)

    def _rank_of(self, pid: int) -> int | None:
        """Of a process that records nothing, where there is but one rank, it is that one's."""
        rank = self._ranks.get(pid)
        if rank is None:
            known = set(self._ranks.values())
            return min(known, default=0) if len(known) <= 1 else None
        return rank


def _key(process: ProcessInfo) -> _Key:
    return process.host, process.pid, process.monotonic_ns


class _Process:
    def __init__(self, process: ProcessInfo, *, folds: bool, window_s: float) -> None:
        self.process = process
        self.steps = StepsSeen(process.rank, process.pid, process.monotonic_ns, folds=folds)
        self.figures = StepFigures(process.rank, window_s)
        self.told = ProgramReadings(process.rank)
        self.last_ns = 0  # the end of its last step that was told
        self._looked_at: deque[list[int]] = deque(maxlen=4)  # captures: begin, end

    def note_captures(self, batch: Batch) -> None:
        for name, place in batch.places(_CAPTURE):
            time_ns = batch.columns["time_ns"][place]
            if name == names.CAPTURE_BEGIN:
                self._looked_at.append([time_ns, _GOES_ON])
            elif self._looked_at:
                self._looked_at[-1][1] = time_ns

    def marked(self, seen: StepSeen) -> StepSeen:
        """A step that was looked at closely took longer for it."""
        looked = any(seen.start_ns < end and begin < seen.end_ns for begin, end in self._looked_at)
        return seen._replace(is_special=True) if looked else seen


_TOPICS = {names.PROCESS_EXIT: _EXIT, **dict.fromkeys(_CAPTURE, _CAPTURES)}
for _topic, _names in ((_LOOP, LOOP_NAMES), (_TOLD, PROGRAM_NAMES), (_SAMPLES, SAMPLE_NAMES)):
    _TOPICS |= {name: _TOPICS.get(name, 0) | _topic for name in _names}


def _topics(batch: Batch) -> int:
    """What the events of a batch are about."""
    found = 0
    for number in batch.by_name:
        found |= _TOPICS.get(batch.names[number], 0)
    return found


def memory_limit_bytes() -> int | None:
    """What the processes of this run may hold together; None: what the machine has."""
    limits = OwnLimits()
    try:
        nearest = limits.nearest()
        return nearest.limit_bytes if nearest is not None and nearest.kind == "cgroup" else None
    finally:
        limits.close()
