"""What does it cost to profile from inside the code?

One block or one call of a function that does nothing, in turns: with our profiler, with it switched
off, and under the profilers that people use for the same. What the loop, or the plain call, takes
by itself is taken off in each round. Then a million operations, whose memory has to stay flat.

    python benchmarks/in_code.py
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pyinstrument

os.environ["KINETO_LOG_LEVEL"] = "99"  # it says when it starts and stops
import torch

from harness import Result, Target, at_least, at_most, progress, summary, table, turn
from stepscope import PerformanceProfiler, ProfilingConfig, profile_function
from stepscope.record.core import core, core_reason

MB = 2**20
BLOCK = 2_000
OUTER_BLOCK = 200  # for what leaves a record of every call
GROWTH_LIMIT_MB = 4.0
# Flat: 800,000 operations that each kept a single Python object, of 16 bytes at least, would take
# 12 MB. Below 4 MB are the series of samples that fill up to their bound, and the allocator.


class Subject(NamedTuple):
    """Something that is done `times` times, within something that is not timed."""

    loop: Callable[[int], None]
    minus: str  # the subject whose time is not its own; "": none
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    times: int = BLOCK


def function() -> None:
    pass


def calling(called: Callable[[], None]) -> Callable[[int], None]:
    def loop(count: int) -> None:
        for _ in range(count):
            called()

    return loop


def empty_loop(count: int) -> None:
    for _ in range(count):
        pass


def entering(profiler: PerformanceProfiler) -> Callable[[int], None]:
    def loop(count: int) -> None:
        for _ in range(count):
            with profiler.profile("x"):
                pass

    return loop


def record_function(count: int) -> None:
    for _ in range(count):
        with torch.profiler.record_function("x"):
            pass


@contextmanager
def under_cprofile() -> Iterator[None]:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        yield
    finally:
        profiler.disable()


@contextmanager
def under_pyinstrument() -> Iterator[None]:
    profiler = pyinstrument.Profiler()
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()


def under_torch_profiler() -> AbstractContextManager[Any]:
    return torch.autograd.profiler.profile(use_kineto=True)  # type: ignore[no-any-return]


def subjects() -> dict[str, Subject]:
    off = ProfilingConfig(enabled=False)
    plain, empty = "plain call", "empty loop"
    return {
        empty: Subject(empty_loop, ""),
        plain: Subject(calling(function), ""),
        "with profile(…)": Subject(entering(PerformanceProfiler()), empty),
        "with profile(…), off": Subject(entering(PerformanceProfiler(enabled=False)), empty),
        "@profile_function()": Subject(calling(profile_function()(function)), plain),
        "@profile_function, off": Subject(calling(profile_function(off)(function)), plain),
        "cProfile": Subject(calling(function), plain, under_cprofile),
        "pyinstrument": Subject(calling(function), plain, under_pyinstrument),
        "record_function, idle": Subject(record_function, empty),
        "record_function, recording": Subject(
            record_function, empty, under_torch_profiler, OUTER_BLOCK
        ),
    }


def each_ns(subject: Subject) -> float:
    with subject.around():
        subject.loop(10)
        began_ns = time.perf_counter_ns()
        subject.loop(subject.times)
        return (time.perf_counter_ns() - began_ns) / subject.times


def measure(rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of one block or call, of each subject in each round; the first is not counted."""
    of = subjects()
    taken: dict[str, list[float]] = {name: [] for name in of}
    gc.collect()
    gc.disable()
    try:
        for number in range(-1, rounds):
            in_this_round = {name: each_ns(of[name]) for name in turn(list(of), number)}
            if number >= 0:
                for name, subject in of.items():
                    own = in_this_round[name] - in_this_round.get(subject.minus, 0.0)
                    taken[name].append(own)
    finally:
        gc.enable()
    return taken


def million() -> dict[str, Any]:
    program = Path(__file__).parent / "programs" / "million.py"
    done = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def targets(ns: Mapping[str, float], many: Mapping[str, Any]) -> list[Target]:
    def native(value: float) -> float | None:
        return value if core.name == "native" else None

    return [
        at_most("with profile(…), ns", native(ns["with profile(…)"]), 3000.0),
        at_most("with profile(…) switched off, ns", native(ns["with profile(…), off"]), 100.0),
        at_most("@profile_function switched off, ns", ns["@profile_function, off"], 100.0),
        at_most(
            "memory gained from the 200,000th operation to the millionth, MB",
            many["growth_bytes"] / MB,
            GROWTH_LIMIT_MB,
        ),
        at_least("operations counted of a million", many["calls"], many["operations"]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="What does profiling from inside the code cost?")
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()

    progress("a million operations")
    many = million()
    progress("blocks and calls")
    taken = measure(arguments.rounds)
    ns = {name: statistics.median(values) for name, values in taken.items()}
    print(table(("", "ns"), [(name, f"{value:.0f}") for name, value in ns.items()]))
    print(
        f"\n{many['operations']:,} operations: {many['growth_bytes'] / MB:.2f} MB gained after the "
        f"first fifth, {many['disk_bytes'] / MB:.1f} MB on disk, {many['seconds']:.1f} s"
    )
    figures = {
        "core": core_reason,
        "ns": {name: summary(values) for name, values in taken.items()},
        "million": many,
    }
    print(Result("in_code", figures, targets(ns, many)).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
