"""Stack samples of all processes → where the time of each phase went, as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence

from stepscope.analyze.hot_lines import flame_of, lines_of
from stepscope.analyze.line_times import Frame
from stepscope.analyze.loop import Loop
from stepscope.analyze.slow_fetches import USUAL, SlowFetches, fetches_of
from stepscope.analyze.spans import DEVICE, OPEN, PHASES, SpanRow, loop_spans
from stepscope.analyze.stack_phases import Sample, ThreadPhases
from stepscope.analyze.stack_tree import StackTree
from stepscope.analyze.stack_windows import StackWindows
from stepscope.model import names
from stepscope.model.details import OTHER_THREADS, SLOW_BATCHES, PhaseStacks
from stepscope.model.event import Batch, Flag
from stepscope.model.finding import Location
from stepscope.model.phases import Phase
from stepscope.model.process import ProcessInfo

__all__ = ["StackFold", "user_location"]

# Threads empty their rings in turn, once a second: what happened first may arrive last.
_TAIL_NS = 2_000_000_000
_PROCESSES = 64  # whose numbers are remembered; workers come and go
_THREADS = 64  # of a process
_EARLY = 5_000  # samples of a thread before it shows a span of a loop
# A stack is named a moment after it was first seen; what is not by then was lost.
_UNNAMED_NS, _UNNAMED = 5_000_000_000, 50_000
_COLUMNS = ("name", "time_ns", "arg", "value", "text", "track", "flags")
_NATIVE = int(Flag.NATIVE)
_OF_WORKERS = frozenset(
    {names.WORKER_START, names.WORKER_IDLE, names.WORKER_FETCH, names.SERIALISE}
)
_MAKING_SAMPLES = frozenset({names.WORKER_FETCH, names.SAMPLE, names.TRANSFORM})

# The outermost frame of a child of multiprocessing that runs as one: below it, a forked child still
# has the frames that its parent was in.
_CHILD_BEGINS = "BaseProcess._bootstrap"

_PLACES = ("main", "worker", "thread")
_PHASES = [phase.value for phase in Phase]

# {(where, phase): {(stack, in C): [ns, samples]}}
_Found = dict[tuple[str, str], dict[tuple[int, bool], list[int]]]


class _Process:
    """What is known of one process. Its own numbers of stacks become those of the tree here."""

    def __init__(self, info: ProcessInfo) -> None:
        self.info = info
        self.numbers: dict[int, int] = {0: 0}
        self.threads: dict[int, ThreadPhases] = {}
        self.early: dict[int, list[Sample]] = {}  # of threads that have shown no span of a loop
        self.unnamed: deque[tuple[int, Sample]] = deque()
        self.in_python = StackWindows()  # by thread, while it ran Python
        self.slow: SlowFetches | None = None
        self.latest_ns = 0
        self.is_worker = False

    @property
    def worth(self) -> tuple[bool, int]:
        """Of remembering it: training processes first, then those that were heard of last."""
        return self.trains, self.latest_ns

    @property
    def trains(self) -> bool:
        return any(thread.signs[0] for thread in self.threads.values())

    def training_track(self) -> int | None:
        threads = self.threads
        return max(threads, key=lambda track: threads[track].signs, default=None)


class StackFold:
    """`update` with every batch of every process; `get` the phases of the loops so far.

    Samples of the training thread are attributed as the loop itself is (stack_phases.py), those of
    loader workers by the innermost span that was open. Of other threads of the training process
    those count in which they ran Python: then they hold the interpreter, or want it. Only sums are
    kept, by stack.
    """

    def __init__(self, *, keeps_recent: bool = False) -> None:
        """keeps_recent: `since` will be asked."""
        self._keeps_recent = keeps_recent
        self._tree = StackTree()
        self._processes: dict[tuple[int, int], _Process] = {}  # pids are used again
        self._workers: dict[int, StackWindows] = {}  # by the pid of the parent
        self._usual_ns: dict[int, deque[int]] = {}  # what batches take, likewise

    # ---- taking in ----

    def update(self, process: ProcessInfo, batch: Batch) -> None:
        here = self._process(process)
        self._learn(here, batch)
        rows = [row for row in loop_spans(batch) if row[2] < DEVICE and not row[7] & OPEN]
        samples, fetches = list(_samples(batch)), fetches_of(batch)
        if not rows and not samples and not fetches and not here.unnamed:
            return
        for track, sample in samples:
            here.latest_ns = max(here.latest_ns, sample.time_ns)
            here.is_worker = here.is_worker or sample.tag in _OF_WORKERS
            here.unnamed.append((track, sample))
        if rows:
            here.latest_ns = max(here.latest_ns, rows[-1][1])
        if here.is_worker and not here.trains:  # all of it is counted by what was open
            here.threads.clear()
            here.early.clear()
        named = list(_named(here))
        self._hand_on(here, rows, named)
        if here.is_worker:
            self._count_slow(here, fetches, [one for track, one in named if track == process.pid])

    def _process(self, info: ProcessInfo) -> _Process:
        key = (info.pid, info.unix_ns)
        found = self._processes.get(key)
        if found is None:
            if len(self._processes) >= _PROCESSES:
                silent = min(self._processes, key=lambda one: self._processes[one].worth)
                del self._processes[silent]
            found = self._processes[key] = _Process(info)
        return found

    def _learn(self, process: _Process, batch: Batch) -> None:
        wanted = _number_of(names.STACK_FRAME, batch)
        if wanted is None:
            return
        columns = (batch.columns[name].tolist() for name in ("name", "arg", "text"))
        for name, number, text in zip(*columns, strict=True):
            if name == wanted:
                caller, line, function, file = batch.names[text].split("\t", 3)
                outer = process.numbers.get(int(caller), 0)
                if function == _CHILD_BEGINS:
                    outer = 0
                frame = Frame(outer, file, function, int(line))
                process.numbers[number] = self._tree.add(frame)

    def _hand_on(
        self, process: _Process, rows: Sequence[SpanRow], named: Iterable[tuple[int, Sample]]
    ) -> None:
        rows_of: dict[int, list[SpanRow]] = {}
        samples_of: dict[int, list[Sample]] = {}
        for row in rows:
            rows_of.setdefault(row[8], []).append(row)
        for track, sample in named:
            samples_of.setdefault(track, []).append(sample)
        waits_ns = process.unnamed[0][1].time_ns if process.unnamed else process.latest_ns
        settled_ns = min(process.latest_ns - _TAIL_NS, waits_ns - 1)
        for track in rows_of.keys() | samples_of.keys():
            samples = samples_of.get(track, [])
            if not process.trains:
                self._count_by_tag(process, track, samples)
            if not process.is_worker:
                _count_python(process, track, samples)
            thread = process.threads.get(track)
            may_train = process.trains or not process.is_worker
            if (
                thread is None
                and may_train
                and track in rows_of
                and len(process.threads) < _THREADS
            ):
                thread = process.threads[track] = ThreadPhases(keeps_recent=self._keeps_recent)
                samples = process.early.pop(track, []) + samples
            if thread is not None:
                thread.update(rows_of.get(track, []), samples, settled_ns)
            else:
                self._keep_early(process, track, samples)

    def _keep_early(self, process: _Process, track: int, samples: list[Sample]) -> None:
        """The first span of a loop may be a long one, and is seen when it ends."""
        if process.is_worker or len(process.early) >= _THREADS:
            return
        kept = process.early.setdefault(track, [])
        kept += samples
        del kept[:-_EARLY]

    def _count_by_tag(self, process: _Process, track: int, samples: Sequence[Sample]) -> None:
        if not samples:
            return
        windows = self._windows_below(process.info.parent_pid)
        for sample in samples:
            if sample.tag or track == process.info.pid:  # other threads: only what they are for
                windows.count(sample.tag or names.WORKER, sample)

    def _windows_below(self, parent: int) -> StackWindows:
        if parent not in self._workers and len(self._workers) >= _PROCESSES:
            return StackWindows()  # of helpers of helpers: nobody will ask
        return self._workers.setdefault(parent, StackWindows())

    def _count_slow(
        self, process: _Process, fetches: Sequence[tuple[int, int]], samples: Iterable[Sample]
    ) -> None:
        """Once more, those of batches that took far longer than others."""
        parent = process.info.parent_pid
        if process.slow is None:
            usual_ns = self._usual_ns.setdefault(parent, deque(maxlen=USUAL))
            process.slow = SlowFetches(usual_ns)
        windows = self._windows_below(parent)
        for sample in process.slow.update(fetches, samples):
            if sample.tag in _MAKING_SAMPLES:
                windows.count(SLOW_BATCHES, sample)

    # ---- telling ----

    def get(self, loops: Sequence[Loop]) -> tuple[PhaseStacks, ...]:
        """Phases of the training threads in their order, then spans of workers, the dearest first,
        then other threads of the training processes.

        Only what was seen within the time of the loops counts.
        """
        by_pid = {loop.pid: loop for loop in loops}
        found: _Found = {}
        for process in self._processes.values():
            loop, track = by_pid.get(process.info.pid), process.training_track()
            if loop is None or track is None:
                continue
            for (place, stack, native), times in process.threads[track].get(loop).items():
                _add(found, ("main", PHASES[place].value), (stack, native), times)
            _add_threads(found, process, loop, track)
        if loops:
            self._add_workers(found, by_pid)
        made = [self._stacks(where, phase, spent) for (where, phase), spent in found.items()]
        return tuple(sorted(made, key=_order))

    def since(self, pid: int, start_ns: int, until_ns: int) -> tuple[PhaseStacks, ...]:
        """Phases of that process's training thread between two moments of the last minute."""
        for process in self._processes.values():
            track = process.training_track()
            if process.info.pid == pid and track is not None:
                found: _Found = {}
                spent = process.threads[track].since(start_ns, until_ns)
                for (place, stack, native), times in spent.items():
                    _add(found, ("main", PHASES[place].value), (stack, native), times)
                made = [self._stacks(*key, spent) for key, spent in found.items()]
                return tuple(sorted(made, key=_order))
        return ()

    def _add_workers(self, found: _Found, by_pid: dict[int, Loop]) -> None:
        """Children of the processes with a loop, and whoever records what only workers do."""
        everywhere = (
            min(loop.start_ns for loop in by_pid.values()),
            max(loop.end_ns for loop in by_pid.values()),
        )
        for parent, windows in self._workers.items():
            loop = by_pid.get(parent)
            if loop is None and not windows.tags & _OF_WORKERS:
                continue
            start_ns, end_ns = (loop.start_ns, loop.end_ns) if loop else everywhere
            for (tag, stack, native), times in windows.between(start_ns, end_ns):
                _add(found, ("worker", tag), (stack, native), times)

    def _stacks(
        self, where: str, phase: str, spent: dict[tuple[int, bool], list[int]]
    ) -> PhaseStacks:
        return PhaseStacks(
            phase=phase,
            where=where,
            ms=sum(ns for ns, _ in spent.values()) / 1e6,
            samples=sum(samples for _, samples in spent.values()),
            lines=lines_of(spent, self._tree),
            flame=flame_of(phase, spent, self._tree),
        )


def _order(one: PhaseStacks) -> tuple[int, int, float, str]:
    phase = _PHASES.index(one.phase) if one.phase in _PHASES else len(_PHASES)
    return _PLACES.index(one.where), phase, -one.ms, one.phase


def _add_threads(found: _Found, process: _Process, loop: Loop, training: int) -> None:
    for (track, stack, native), times in process.in_python.between(loop.start_ns, loop.end_ns):
        if track != str(training):
            _add(found, ("thread", OTHER_THREADS), (stack, native), times)


def _add(
    found: _Found, key: tuple[str, str], stack: tuple[int, bool], times: Sequence[int]
) -> None:
    sums = found.setdefault(key, {}).setdefault(stack, [0, 0])
    sums[0] += times[0]
    sums[1] += times[1]


def _count_python(process: _Process, track: int, samples: Iterable[Sample]) -> None:
    """Which of the threads trains is known only later."""
    for sample in samples:
        if not sample.native:
            process.in_python.count(str(track), sample)


def _number_of(name: str, batch: Batch) -> int | None:
    return next((number for number, known in batch.names.items() if known == name), None)


def _named(process: _Process) -> Iterator[tuple[int, Sample]]:
    """Samples in the order in which they came, as far as all before them have a name."""
    unnamed, numbers = process.unnamed, process.numbers
    while unnamed:
        track, sample = unnamed[0]
        stack = numbers.get(sample.stack)
        lost = process.latest_ns - sample.time_ns > _UNNAMED_NS or len(unnamed) > _UNNAMED
        if stack is None and not lost:
            return
        unnamed.popleft()
        yield track, sample._replace(stack=stack or 0)


def _samples(batch: Batch) -> Iterator[tuple[int, Sample]]:
    known, wanted = batch.names, _number_of(names.STACK, batch)
    if wanted is None:
        return
    columns = (batch.columns[name].tolist() for name in _COLUMNS)
    for name, time_ns, arg, value, text, track, flags in zip(*columns, strict=True):
        if name == wanted:
            tag = known.get(text, "")
            yield track, Sample(time_ns, tag, arg, bool(flags & _NATIVE), round(value))


def user_location(
    stacks: Iterable[PhaseStacks], phase: str | Collection[str], where: str
) -> tuple[Location, float] | None:
    """The line of the user's own code that a phase spent most in, and its share of the phase.

    With several phases (the spans of a worker: fetch, sample, transform) it is the line that is
    dearest over all of them, and its share of their time together. None: nothing was seen there, or
    no line of the user's.
    """
    wanted = {phase} if isinstance(phase, str) else set(phase)
    spent: dict[Location, float] = {}
    total_ms = 0.0
    for one in stacks:
        if one.where != where or one.phase not in wanted:
            continue
        total_ms += one.ms
        for line in one.lines:
            if line.location.file:
                spent[line.location] = spent.get(line.location, 0.0) + line.share * one.ms
    if not spent or not total_ms:
        return None
    best = max(spent, key=spent.__getitem__)
    return best, spent[best] / total_ms
