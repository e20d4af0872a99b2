"""What does sampling the stacks of a training process and its four loader workers cost?

Five processes do the same work over and over, in turns of a fraction of a second: with the sampler
and without it, in the same processes and side by side. Each turn that is sampled is compared with
the one beside it that is not. On a machine with fewer CPUs than processes, whatever sampling takes,
it takes from the work.

    python benchmarks/sampler_cost.py --turns 160
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from harness import Result, at_most, paired_ratios, progress, summary, table
from stepscope.collect.stacks import StackCollector
from stepscope.config import DEFAULTS
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header

WORKERS = 4
DEPTH = 40  # frames, as below a training framework
LIMIT = 1.01
BYTES = bytes(range(256)) * 256
OFF, ON, END = 0, 1, 2
SETTLE_S = 0.03  # a run starts its threads once, a turn must not pay for that


class Turn(NamedTuple):
    """One turn of one process."""

    wall_s: float
    cpu_s: float  # of the whole process, our threads included


def work(depth: int, rounds: int) -> int:
    """Python, calls, and C that lets go of the GIL; at the bottom of a deep stack."""
    if depth:
        return work(depth - 1, rounds)
    found = 0
    for _ in range(rounds):
        found += sum(number * number for number in range(2000))
        found += len(zlib.compress(BYTES, 1))
    return found


class Subject:
    """A process that works in turns."""

    def __init__(self, folder: str, rounds: int) -> None:
        self._rounds = rounds
        self._recorder = Recorder()
        base = str(Path(folder, multiprocessing.current_process().name))
        header = process_header({}, [], self._recorder.core.name, Moment.now())
        self._recorder.open(base, header)
        self._collector = StackCollector(DEFAULTS.stack_interval_s)
        self.turn(ON, lambda: None)  # the stacks of later turns are known by then

    def turn(self, sampled: int, all_ready: Callable[[], object]) -> Turn:
        if sampled:
            self._collector.start(self._recorder)
        time.sleep(SETTLE_S)
        all_ready()
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        work(DEPTH, self._rounds)
        took = Turn(time.perf_counter() - wall_s, time.process_time() - cpu_s)
        self._collector.stop()
        return took

    def close(self) -> dict[str, int]:
        self._recorder.close()
        return self._collector.counters()


def serve(folder: str, rounds: int, pipe: Connection) -> None:
    def all_ready() -> None:
        pipe.send(None)
        pipe.recv()

    subject = Subject(folder, rounds)
    pipe.send(None)
    while (order := pipe.recv()) != END:
        pipe.send(subject.turn(order, all_ready))
    pipe.send(subject.close())


def _wait_for_turn(pipe: Connection) -> object:
    pipe.send(None)
    return pipe.recv()


class Crew:
    """The workers, and this process as the one that trains."""

    def __init__(self, folder: str, rounds: int) -> None:
        context = multiprocessing.get_context("fork")
        self._pipes = []
        self._processes = []
        for number in range(WORKERS):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(folder, rounds, theirs), name=f"worker-{number}", daemon=True
            )
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        self._main = Subject(folder, rounds)
        self._all_say_ready()

    def _all_say_ready(self) -> None:
        for pipe in self._pipes:
            pipe.recv()

    def _go(self) -> None:
        self._all_say_ready()
        for pipe in self._pipes:
            pipe.send(None)

    def turn(self, sampled: int) -> list[Turn]:
        for pipe in self._pipes:
            pipe.send(sampled)
        mine = self._main.turn(sampled, self._go)
        return [mine, *(pipe.recv() for pipe in self._pipes)]

    def close(self) -> int:
        """How many samples were taken."""
        taken = self._main.close()["taken"]
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(END)
            taken += pipe.recv()["taken"]
            process.join()
        return taken


def measure(turns: int, rounds: int) -> tuple[dict[str, list[float]], int]:
    """Ratios of the turns with the sampler to those beside them without it, and samples taken."""
    wall: dict[int, list[float]] = {OFF: [], ON: []}
    cpu: dict[int, list[float]] = {OFF: [], ON: []}
    with tempfile.TemporaryDirectory() as folder:
        crew = Crew(folder, rounds)
        for number in range(-1, turns):
            for sampled in (OFF, ON) if number % 2 else (ON, OFF):
                took = crew.turn(sampled)
                if number >= 0:  # the first warms up
                    wall[sampled].append(max(one.wall_s for one in took))
                    cpu[sampled].append(sum(one.cpu_s for one in took))
            if number % 20 == 19:
                progress(f"  {number + 1} turns")
        taken = crew.close()
    ratios = {"wall": paired_ratios(wall[ON], wall[OFF]), "cpu": paired_ratios(cpu[ON], cpu[OFF])}
    return ratios, taken


def main() -> int:
    parser = argparse.ArgumentParser(description="What does sampling stacks cost?")
    parser.add_argument("--turns", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=600, help="of work in a turn")
    options = parser.parse_args()
    ratios, taken = measure(options.turns, options.rounds)
    figures = {name: summary(values) for name, values in ratios.items()}
    rows = [
        (name, *(f"{figure[key]:.4f}" for key in ("median", "spread", "low", "high")))
        for name, figure in figures.items()
    ]
    print(table(("sampled / not", "median", "spread", "low", "high"), rows))
    targets = [
        at_most("wall clock of main and 4 workers, ratio", figures["wall"]["median"], LIMIT),
        at_most("CPU of main and 4 workers, ratio", figures["cpu"]["median"], LIMIT),
    ]
    known = {"interval_s": DEFAULTS.stack_interval_s, "workers": WORKERS, "samples": taken}
    print(Result("sampler_cost", figures | known, targets).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
