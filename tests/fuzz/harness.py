"""Feeds damaged inputs to a reader, and counts every answer that is not a clear one.

A reader may accept a damaged input or refuse it with a StepscopeError. Any other exception, an
input that takes longer than `HANG_S`, one that needs more than `MEMORY_BYTES`, or the death of the
process is a defect. Input number n of a target depends on the seed and on n alone, so that
`python -m tests.fuzz TARGET --seed S --first N --inputs 1` repeats it.
"""

from __future__ import annotations

import resource
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import NoReturn

from stepscope.errors import StepscopeError

HANG_S = 10.0
# A reader may take this much on top of what the process holds before the first input.
MEMORY_BYTES = 1 << 30
EXAMPLES_KEPT = 5

Feed = Callable[[Random], object]


@dataclass(frozen=True)
class Target:
    """A kind of input.

    `setup(folder)` makes undamaged files in an empty folder and returns the function that damages
    one of them with the given random numbers and reads it as a command would.
    """

    name: str
    setup: Callable[[Path], Feed]


@dataclass
class Tally:
    """What became of the inputs."""

    accepted: int = 0
    refused: int = 0
    tracebacks: int = 0
    hangs: int = 0
    out_of_memory: int = 0
    crashes: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.accepted + self.refused + self.defects

    @property
    def defects(self) -> int:
        return self.tracebacks + self.hangs + self.out_of_memory + self.crashes

    def example(self, number: int, text: str) -> None:
        if len(self.examples) < EXAMPLES_KEPT:
            self.examples.append(f"input {number}: {text}")

    def plus(self, other: Tally) -> Tally:
        """The sum of both; examples of the first come first."""
        ours, theirs = dict(vars(self)), vars(other)
        return Tally(**{name: value + theirs[name] for name, value in ours.items()})


def feed_all(target: Target, feed: Feed, seed: int, numbers: Iterable[int]) -> Iterator[Tally]:
    """Feed the inputs with these numbers; yields the tally so far after each of them."""
    tally = Tally()
    for number in numbers:
        try:
            with _time_limit():
                feed(Random(f"{seed}/{target.name}/{number}"))
            tally.accepted += 1
        except StepscopeError:
            tally.refused += 1
        except _HangError:
            tally.hangs += 1
            tally.example(number, f"no answer within {HANG_S:.0f} s\n{traceback.format_exc()}")
        except MemoryError:
            tally.out_of_memory += 1
            tally.example(number, f"out of memory\n{traceback.format_exc()}")
        except Exception:  # noqa: BLE001 - any other exception is what we look for
            tally.tracebacks += 1
            tally.example(number, traceback.format_exc())
        yield tally


def limit_memory() -> None:
    """Let this process take `MEMORY_BYTES` more than it has; beyond that it gets a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


class _HangError(BaseException):
    """Raised by the timer. No reader may catch it, so it is not an Exception."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise _HangError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
