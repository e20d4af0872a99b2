"""Events of the workers and of the training process → the input pipeline, stage by stage."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from stepscope.analyze.loaders import parsed
from stepscope.analyze.loop import Loop
from stepscope.analyze.pipeline_loader import LoaderKey, LoaderSums
from stepscope.analyze.pipeline_stages import Seen, pipeline_of
from stepscope.analyze.pipeline_time import Sum, merge
from stepscope.model import names
from stepscope.model.details import Pipeline
from stepscope.model.event import Batch, Flag
from stepscope.model.process import ProcessInfo

__all__ = ["PipelineFold"]

_USE = (
    names.WORKER_RUN_DELAY_NS, names.WORKER_READ_BYTES, names.WORKER_READ_CHARS,
    names.WORKER_WRITE_BYTES, names.WORKER_SYSTEM_NS,
)  # fmt: skip
_IN_MAIN = frozenset({names.DESERIALISE, names.PIN})
_WANTED = frozenset({
    names.WORKER, names.WORKER_START, names.WORKER_IDLE, names.WORKER_FETCH, names.SAMPLE,
    names.TRANSFORM, names.TRANSFORM_NAME, names.COLLATE, names.SERIALISE, names.LOADER,
    names.INPUT_ITER, names.INPUT_NEXT, names.PROCESS_EXIT, *_IN_MAIN, *_USE,
})  # fmt: skip
_PROCESSES = 512  # whose events are told apart; a worker that was killed does not say that it ends
_LOADERS = 256  # kept apart; iterators whose loader is remembered: the same
_PENDING = 20_000
_ITERATIONS = 4096
_FAILED, _OPEN = int(Flag.FAILED), int(Flag.OPEN)
_START_SLACK_NS = 30_000_000  # the kernel tells the start of a process in hundredths of a second


class _Event(NamedTuple):
    name: str
    end_ns: int
    wall_ns: int
    cpu_ns: int
    arg: int
    value: float
    track: int
    failed: bool
    text: str


class PipelineFold:
    """`update` with every batch of every process, in order; `get` at any time."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, int, int], _Process] = {}
        self._loaders: dict[LoaderKey, LoaderSums] = {}

    def update(self, process: ProcessInfo, batch: Batch) -> None:
        if process.role != "program" or not _WANTED.intersection(batch.names.values()):
            return
        key = (process.host, process.pid, process.monotonic_ns)
        fold = self._processes.get(key)
        if fold is None:
            self._make_room()
            fold = self._processes[key] = _Process(process, self._loaders)
        ended = False
        for event in _events(batch):
            ended = ended or event.name == names.PROCESS_EXIT
            fold.take(event)
        fold.settle()
        if ended and fold.is_worker:  # a run may start thousands of them
            del self._processes[key]

    def _make_room(self) -> None:
        if len(self._processes) >= _PROCESSES:
            helpers = (key for key, one in self._processes.items() if not one.iterations)
            del self._processes[next(helpers, next(iter(self._processes)))]

    def get(self, loops: Sequence[Loop]) -> Pipeline | None:
        """The loader that training waited for most within the time of the loops; None: there was
        none, or nothing was recorded of it."""
        waited = [(use.wait_ns, loop, use) for loop in loops for use in loop.loaders]
        if not waited:
            return None
        _, loop, use = max(waited, key=lambda found: found[0])
        wanted = LoaderKey.of_settings(loop.rank, loop.pid, use.settings)
        sums: dict[Hashable, Sum] = {}
        seen = Seen(wanted.workers, sums, sum(loop.wall_ns for loop in loops))
        for key, loader in self._loaders.items():
            of = [loop for loop in loops if (loop.rank, loop.pid) == (key.rank, key.pid)]
            if not of or not key.is_like(wanted):
                continue
            windows = [(loop.start_ns, loop.end_ns) for loop in of]
            merge(sums, loader.sums.within(windows).items())
            seen.slow.extend(loader.slowest(windows))
            seen.startups_ns.extend(self._startups_ns(key, loader.starts))
            seen.starts += len(loader.starts)
        return pipeline_of(seen)

    def _startups_ns(self, key: LoaderKey, starts: Sequence[int]) -> Iterator[int]:
        """For each time that workers were started: from iter() to the first batch."""
        iterations = [
            iteration
            for process in self._processes.values()
            if (process.rank, process.pid) == (key.rank, key.pid)
            for iteration in process.iterations
        ]
        for began_ns in starts:
            before = [it for it in iterations if it[0] <= began_ns + _START_SLACK_NS]
            if before:
                iter_ns, first_ns = max(before)
                yield first_ns - iter_ns


class _Process:
    """What one process tells: a worker of its own work, another of the loaders that it iterates."""

    def __init__(self, process: ProcessInfo, loaders: dict[LoaderKey, LoaderSums]) -> None:
        self.rank, self.pid = process.rank, process.pid
        self._parent = process.parent_pid
        self._loaders = loaders
        self._transforms: dict[int, str] = {}
        self._use: dict[str, tuple[float, int]] = {}  # the newest sum, of how many batches
        self.iterations: deque[tuple[int, int]] = deque(maxlen=_ITERATIONS)  # iter, first batch
        self._own: LoaderSums | None = None  # of a worker
        self._number = 0
        self._warm = False  # a worker's first batch finds nothing ready: it tells of no other
        self._iterators: dict[int, LoaderKey] = {}
        self._fresh: dict[int, int] = {}  # iterators without a batch so far → start of iter()
        self._latest: LoaderSums | None = None
        self._pending: dict[int, list[_Event]] = {}  # by track, until input.next says whose it is
        self._tracks: set[int] = set()  # of the threads that iterate

    @property
    def is_worker(self) -> bool:
        return self._own is not None

    def take(self, event: _Event) -> None:
        if event.name == names.TRANSFORM_NAME:
            self._transforms[event.arg] = event.text
        elif event.name == names.WORKER:
            key = LoaderKey.of_worker(self.rank, self._parent, parsed(event.text))
            self._own, self._number = self._loader(key), event.arg
        elif self._own is not None:
            self._add(self._own, event)
            if event.name == names.WORKER_FETCH and not event.failed:
                if self._warm:
                    self._own.add_batch(event.end_ns, event.wall_ns)
                self._warm = True
        elif event.name == names.LOADER:
            self._tracks.add(event.track)
            key = LoaderKey.of_settings(self.rank, self.pid, parsed(event.text))
            self._iterators.pop(event.arg, None)
            self._iterators[event.arg] = key
            if len(self._iterators) > _LOADERS:
                del self._iterators[next(iter(self._iterators))]
        elif event.name in (names.INPUT_ITER, names.INPUT_NEXT):
            self._tracks.add(event.track)
            self._iterated(event)
        else:
            pending = self._pending.setdefault(event.track, [])
            pending.append(event)
            if len(pending) > _PENDING:
                del pending[: _PENDING // 2]

    def settle(self) -> None:
        """What other threads than those that iterate received, they received for the latest."""
        for track in [track for track in self._pending if track not in self._tracks]:
            for event in self._pending.pop(track):
                if self._latest is not None and event.name in _IN_MAIN:
                    self._add(self._latest, event, where="pin")

    def _iterated(self, event: _Event) -> None:
        inside = self._pending.pop(event.track, [])
        if event.name == names.INPUT_ITER:
            self._fresh[event.arg] = event.end_ns - event.wall_ns
            if len(self._fresh) > _LOADERS:
                del self._fresh[next(iter(self._fresh))]
            return
        iter_ns = self._fresh.pop(event.arg, None)
        key = self._iterators.get(event.arg)
        if event.failed or key is None:
            return
        if iter_ns is not None:
            self.iterations.append((iter_ns, event.end_ns))
        self._latest = self._loader(key)
        for one in (*inside, event):
            self._add(self._latest, one)
        if not key.workers and iter_ns is None:
            self._latest.add_batch(event.end_ns, event.wall_ns)

    def _loader(self, key: LoaderKey) -> LoaderSums:
        found = self._loaders.get(key)
        if found is None:
            found = LoaderSums()
            if len(self._loaders) < _LOADERS:
                self._loaders[key] = found
        return found

    def _add(self, loader: LoaderSums, event: _Event, where: str = "main") -> None:
        name, end_ns, wall_ns, cpu_ns = event[:4]
        weight = event.value or 1.0
        if name in _USE:
            self._add_use(loader, event)
        elif name == names.WORKER_START:
            if self._number == 0:
                loader.add_start(end_ns - wall_ns)
        elif name == names.WORKER_IDLE:
            loader.add(name, end_ns, wall_ns, cpu_ns, 1.0)
        elif event.failed:
            return
        elif name == names.SAMPLE:
            loader.add_sample(end_ns, wall_ns, event.arg, weight, self._number)
        elif name == names.TRANSFORM:
            key = (name, self._transforms.get(event.arg, ""))
            loader.add(key, end_ns, wall_ns, cpu_ns, weight)
        elif name == names.SERIALISE:
            loader.add(name, end_ns, wall_ns, cpu_ns, 1.0)
            loader.add("bytes", end_ns, event.arg, -1, 1.0)
        elif name in _IN_MAIN:
            loader.add((name, where), end_ns, wall_ns, cpu_ns, 1.0)
        elif name == names.COLLATE:
            loader.add(name, end_ns, wall_ns, cpu_ns, weight)
        elif name in (names.WORKER_FETCH, names.INPUT_NEXT):
            loader.add(name, end_ns, wall_ns, cpu_ns, 1.0)

    def _add_use(self, loader: LoaderSums, event: _Event) -> None:
        """Sums over batches; after a fork they begin anew in files of their own."""
        value, batches = self._use.get(event.name, (0.0, 0))
        self._use[event.name] = (event.value, event.arg)
        if event.arg > batches:
            each = (event.value - value) / (event.arg - batches)
            loader.sums.add(event.end_ns, event.name, each, weight=event.arg - batches)


def _events(batch: Batch) -> Iterator[_Event]:
    """Those that tell of the pipeline, in the order in which their threads recorded them."""
    wanted = {number: name for number, name in batch.names.items() if name in _WANTED}
    columns, known = batch.columns, batch.names
    rows = zip(
        columns["name"].tolist(),
        columns["time_ns"].tolist(),
        columns["duration_ns"].tolist(),
        columns["cpu_ns"].tolist(),
        columns["arg"].tolist(),
        columns["value"].tolist(),
        columns["track"].tolist(),
        columns["flags"].tolist(),
        columns["text"].tolist(),
        strict=True,
    )
    for number, time_ns, wall_ns, cpu_ns, arg, value, track, flags, text in rows:
        if number in wanted and not flags & _OPEN:
            yield _Event(
                wanted[number],
                time_ns + wall_ns,
                wall_ns,
                cpu_ns,
                arg,
                value,
                track,
                bool(flags & _FAILED),
                known[text] if text else "",
            )
