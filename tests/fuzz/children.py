"""Feeds a target's inputs in child processes, so that a crash or a hang costs one input only."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.harness import HANG_S, Tally, feed_all, limit_memory
from tests.fuzz.targets import all_targets

# A child that is stuck in C code does not reach its own timer: the parent waits this much longer.
STUCK_S = HANG_S + 20
# Making the undamaged files may mean running a training program.
SETUP_S = 300


@dataclass(frozen=True)
class Outcome:
    """How far a target has come."""

    tally: Tally
    seconds: float
    growth_mb: float  # the largest growth of a child's peak resident memory

    def figures(self) -> dict[str, float]:
        counts = {name: value for name, value in vars(self.tally).items() if name != "examples"}
        return {
            "inputs": self.tally.inputs,
            **counts,
            "ms_per_input": round(1e3 * self.seconds / max(1, self.tally.inputs), 2),
            "memory_growth_mb": round(self.growth_mb, 1),
        }


def feed_in_child(name: str, seed: int, first: int, count: int) -> Iterator[Outcome]:
    """Feed inputs `first` to `first + count - 1`; after one that kills the child, start another."""
    spawn = multiprocessing.get_context("spawn")
    done, growth_mb, seconds, number, end = Tally(), 0.0, 0.0, first, first + count
    while number < end:
        ours, theirs = spawn.Pipe(duplex=False)
        child = spawn.Process(target=_feed, args=(theirs, name, seed, number, end))
        child.start()
        theirs.close()
        tally, at, died = Tally(), -1, False
        began = time.monotonic()
        try:
            while at < end and ours.poll(SETUP_S if at < 0 else STUCK_S):
                if at < 0:
                    began = time.monotonic()
                at, tally, child_mb = ours.recv()
                growth_mb = max(growth_mb, child_mb)
                yield Outcome(done.plus(tally), seconds + time.monotonic() - began, growth_mb)
        except EOFError:
            died = True
        seconds += time.monotonic() - began
        if at < end and not died:
            child.kill()
        child.join()
        if at < 0:
            raise SystemExit(f"{name}: the undamaged files could not be made")
        done = done.plus(tally)
        if at < end:  # the number that it reported last is the one that it never finished
            done.crashes += died
            done.hangs += not died
            done.example(at, f"exit code {child.exitcode}" if died else "stuck in C code")
        number = at + 1
    yield Outcome(done, seconds, growth_mb)


def _feed(pipe: Connection, name: str, seed: int, first: int, end: int) -> None:
    """In the child: before each input, send its number, the tally and the growth in MB."""
    target = all_targets()[name]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        feed = target.setup(Path(folder))
        limit_memory()
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pipe.send((first, Tally(), 0.0))
        for at, tally in enumerate(feed_all(target, feed, seed, range(first, end)), first + 1):
            grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
            pipe.send((at, tally, grown_kb / 1024))
    pipe.close()
