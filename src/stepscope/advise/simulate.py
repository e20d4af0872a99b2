"""How fast a loop would go with other loader settings, by playing it through.

The formula (advise/throughput.py) knows averages only. Here every batch has its own time, as it
was measured: workers share the CPUs, each prepares a few batches ahead, and batches are used in
order, so that one slow batch holds up those behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stepscope.advise.throughput import NEAR_BEST

__all__ = ["BatchWork", "Loader", "choose_workers", "fitted", "near_best", "simulated"]

_BATCHES = 200  # played through
_WARM = 0.2  # of them, at the start, not counted
_EPS = 1e-9
_MOST_BACKGROUND = 4.0  # threads of others for each CPU
_HALVINGS = 8
_SPARE = 2  # workers
_AS_FAST = 0.99


class BatchWork(NamedTuple):
    """Seconds of making one batch: on a CPU, and blocked."""

    cpu_s: float
    blocked_s: float


@dataclass(frozen=True, slots=True)
class Loader:
    """What a batch costs. `made`: measured batches, in order, played over and over.

    `main_s`: wall clock that the training thread takes for a batch once it has it; `main_cpu_s`:
    CPU time of all its threads in it. `receive_s` is the training thread's too. `background`:
    threads of other programs that want a CPU at any time; they get their share.
    """

    made: Sequence[BatchWork]
    main_s: float
    main_cpu_s: float
    cores: float
    send_s: float = 0.0
    receive_s: float = 0.0
    prefetch: int = 2
    in_order: bool = True
    background: float = 0.0

    def speed(self, threads: float) -> float:
        """Of each of so many threads of ours that want a CPU: 1 when it has one for itself."""
        return min(1.0, self.cores / max(threads + self.background, _EPS))


def simulated(loader: Loader, workers: int, batches: int = _BATCHES) -> float:
    """Batches a second.

    >>> even = Loader([BatchWork(0.3, 0.0)], main_s=0.1, main_cpu_s=0.1, cores=4)
    >>> [round(simulated(even, workers), 1) for workers in (0, 1, 2, 3, 4)]
    [2.5, 3.3, 6.7, 10.0, 10.0]
    """
    if workers == 0:
        cpu_s = sum(work.cpu_s for work in loader.made) / len(loader.made)
        blocked_s = sum(work.blocked_s for work in loader.made) / len(loader.made)
        waiting_s = max(0.0, loader.main_s - loader.main_cpu_s)
        width = max(1.0, loader.main_cpu_s / max(loader.main_s, _EPS))
        computing_s = (loader.main_s - waiting_s) / loader.speed(width)
        made_s = cpu_s / loader.speed(1.0) + blocked_s
        return 1.0 / max(made_s + computing_s + waiting_s, _EPS)
    used_at = _Play(loader, workers, batches).run()
    first = int(len(used_at) * _WARM)
    took_s = used_at[-1] - used_at[first]
    return (len(used_at) - 1 - first) / max(took_s, _EPS)


def choose_workers(loader: Loader, limit: int) -> int:
    """The number of workers, from 0 to `limit`, to take."""
    return near_best([simulated(loader, workers) for workers in range(limit + 1)])


def near_best(rates: Sequence[float]) -> int:
    """The smallest number of workers that comes near the best, and up to two to spare where they
    cost nothing. Handing a batch over waits for the worker that made it, which computes the next
    one: that is not played, and with more of them there is more to take meanwhile.

    >>> near_best([1.0, 1.9, 2.0, 2.0]), near_best([2.0, 1.0, 1.0]), near_best([1.0, 2.0, 1.5])
    (3, 0, 1)
    """
    found = next(n for n, rate in enumerate(rates) if rate >= max(rates) * NEAR_BEST)
    if not found:
        return 0
    spare = rates[found + 1 : found + 1 + _SPARE]
    return found + sum(rate >= rates[found] * _AS_FAST for rate in spare)


def fitted(loader: Loader, workers: int, rate: float) -> Loader:
    """The same beside so much other load that playing the present setting gives the rate that was
    measured. As it is, where it is not quicker than that."""
    low, high = loader.background, loader.background + _MOST_BACKGROUND * loader.cores
    if simulated(loader, workers) <= rate:
        return loader
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if simulated(replace(loader, background=middle), workers) > rate:
            low = middle
        else:
            high = middle
    return replace(loader, background=(low + high) / 2)


@dataclass
class _Task:
    """What a worker or the training thread is doing: what it still needs of a CPU, and then of
    time in which it needs none. `width`: how many CPUs it uses while it runs."""

    cpu_s: float
    blocked_s: float
    width: float = 1.0

    @property
    def done(self) -> bool:
        return self.cpu_s <= _EPS and self.blocked_s <= _EPS


@dataclass
class _Play:
    """Time goes on to the next moment at which somebody is done."""

    loader: Loader
    workers: int
    batches: int
    used_at: list[float] = field(default_factory=list)

    def run(self) -> list[float]:
        """When each batch had been used."""
        queues: list[list[int]] = [[] for _ in range(self.workers)]
        self._sent = 0
        for _ in range(min(self.loader.prefetch, self.batches)):
            for queue in queues:
                self._send(queue)
        tasks: list[_Task | None] = [None] * self.workers
        making = [-1] * self.workers
        ready: dict[int, int] = {}  # batch → its worker
        main: _Task | None = None
        now, wanted = 0.0, 0
        while len(self.used_at) < self.batches:
            for at in range(self.workers):
                if tasks[at] is None and queues[at]:
                    making[at] = queues[at].pop(0)
                    tasks[at] = self._making(making[at])
            if main is None and (batch := self._next(ready, wanted)) is not None:
                self._send(queues[ready.pop(batch)])
                wanted += 1
                main = self._using()
            running = [task for task in (*tasks, main) if task is not None]
            now += self._advance(running)
            for at, task in enumerate(tasks):
                if task is not None and task.done:
                    ready[making[at]] = at
                    tasks[at] = None
            if main is not None and main.done:
                self.used_at.append(now)
                main = None
        return self.used_at

    def _send(self, queue: list[int]) -> None:
        queue.append(self._sent)
        self._sent += 1

    def _making(self, batch: int) -> _Task:
        work = self.loader.made[batch % len(self.loader.made)]
        return _Task(max(work.cpu_s + self.loader.send_s, 2 * _EPS), work.blocked_s)

    def _using(self) -> _Task:
        """Receiving and computing. More CPU time than wall clock: several threads ran."""
        loader = self.loader
        wall_s = loader.receive_s + loader.main_s
        cpu_s = loader.receive_s + loader.main_cpu_s
        if cpu_s <= wall_s:
            return _Task(max(cpu_s, 2 * _EPS), wall_s - cpu_s)
        return _Task(max(wall_s, 2 * _EPS), 0.0, width=cpu_s / wall_s)

    def _next(self, ready: dict[int, int], wanted: int) -> int | None:
        if self.loader.in_order:
            return wanted if wanted in ready else None
        return next(iter(ready), None)

    def _advance(self, running: Sequence[_Task]) -> float:
        """Let everybody go on until the first is done; the CPUs are shared alike."""
        speed = self.loader.speed(sum(_widths(running)))
        took = min(task.cpu_s / speed if task.cpu_s > _EPS else task.blocked_s for task in running)
        for task in running:
            if task.cpu_s > _EPS:
                task.cpu_s -= took * speed
            else:
                task.blocked_s -= took
        return took


def _widths(running: Sequence[_Task]) -> Iterator[float]:
    return (task.width for task in running if task.cpu_s > _EPS)
