"""Do the shares of functions depend on how their work is cut into calls?

Two functions do the same kind of work, 30 : 70 by amount. The first does its part in one call, or
in ten, a hundred, a thousand; the second always in one. What a profiler says of the first should
stay at 30 %. One that pays for every call, or that looks only when something is called, says
otherwise.

    python benchmarks/sampler_bias.py --seconds 3
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from harness import Result, Target, at_most, progress, table, turn
from stepscope.collect.stacks import StackCollector
from stepscope.model import names
from stepscope.record.core import core
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header
from stepscope.store.frames import FramesReader

SHARE = 0.3  # of the work, in `small`
UNITS = 300_000  # of work a round, some 10 ms
SPLITS = (1, 10, 100, 1000)  # calls of `small` a round
INTERVAL_S = 0.002
LIMIT = 0.05
OURS = "stepscope"

Work = Callable[[], None]
Tool = Callable[[Work], float]  # runs it; what it says is the share of `small`


# A unit costs the same however many there are: numbers stay small, so that none has to be made.


def small(units: int) -> int:
    found = 0
    for _ in repeat(None, units):
        found = (5 * found + 1) & 31
    return found


def large(units: int) -> int:
    found = 0
    for _ in repeat(None, units):
        found = (5 * found + 1) & 31
    return found


def work_of(calls: int, seconds: float) -> Work:
    units_each = round(UNITS * SHARE / calls)
    units_rest = round(UNITS * (1 - SHARE))

    def work() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(calls):
                small(units_each)
            large(units_rest)

    return work


def share_of(spent: dict[str, float]) -> float:
    small_s, large_s = spent.get("small", 0.0), spent.get("large", 0.0)
    return small_s / (small_s + large_s) if small_s + large_s else 0.0


def with_stepscope(work: Work) -> float:
    recorder = Recorder(core)
    collector = StackCollector(INTERVAL_S)
    spent: dict[str, float] = {}
    _drain()
    collector.start(recorder)
    work()
    collector.stop()
    function_of: dict[int, str] = {}
    rows = list(_drain())
    for row in rows:
        if row.name == names.STACK_FRAME:
            function_of[row.arg] = row.text.split("\t")[2]
    for row in rows:
        if row.name == names.STACK:
            function = function_of.get(row.arg, _known.get(row.arg, ""))
            spent[function] = spent.get(function, 0.0) + row.value
    _known.update(function_of)
    return share_of(spent)


_known: dict[int, str] = {}  # the sampler tells a number once a process


def _drain() -> Iterator[Any]:
    """What was recorded since the last time."""
    with tempfile.TemporaryDirectory() as folder:
        base = str(Path(folder, "events"))
        core.open(base, process_header({}, [], core.name, Moment.now()))
        core.close()
        for path in sorted(Path(folder).glob("events.*.frames")):
            for batch in FramesReader(path).read_new():
                yield from batch.rows()


def with_cprofile(work: Work) -> float:
    profile = cProfile.Profile()
    profile.runcall(work)
    stats: Any = pstats.Stats(profile)
    spent = {function: own for (_, _, function), (_, _, own, _, _) in stats.stats.items()}
    return share_of(spent)


def with_pyinstrument(work: Work) -> float:
    from pyinstrument import Profiler

    profiler = Profiler()  # as a user would: 1 ms
    with profiler:
        work()
    session = profiler.last_session
    spent: dict[str, float] = {}
    waiting = [session.root_frame()] if session is not None else []
    while waiting:
        frame = waiting.pop()
        if frame is None:
            continue
        if frame.function in ("small", "large"):
            spent[frame.function] = spent.get(frame.function, 0.0) + frame.time
        else:
            waiting += frame.children
    return share_of(spent)


TOOLS: dict[str, Tool] = {
    OURS: with_stepscope,
    "cProfile": with_cprofile,
    "pyinstrument": with_pyinstrument,
}


def measure(seconds: float) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """{tool: {calls: share}}, and why a tool is missing."""
    found: dict[str, dict[str, float]] = {}
    unavailable: dict[str, str] = {}
    for number, calls in enumerate(SPLITS):
        for name in turn(list(TOOLS), number):
            if name in unavailable:
                continue
            try:
                share = TOOLS[name](work_of(calls, seconds))
            except ImportError as error:
                unavailable[name] = str(error)
                continue
            found.setdefault(name, {})[str(calls)] = share
            progress(f"  {name}: {calls} calls, {100 * share:.1f} %")
    return found, unavailable


def targets_of(found: dict[str, dict[str, float]]) -> list[Target]:
    worst = max((abs(share - SHARE) for share in found.get(OURS, {}).values()), default=None)
    return [at_most("largest error of a share, at any split", worst, LIMIT)]


def overview(found: dict[str, dict[str, float]]) -> str:
    header = ("", *(f"{calls} calls" for calls in SPLITS))
    rows = [("by work", *(f"{100 * SHARE:.1f} %" for _ in SPLITS))]
    for name, shares in found.items():
        rows.append((name, *(f"{100 * shares[str(calls)]:.1f} %" for calls in SPLITS)))
    return table(header, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Do shares depend on the number of calls?")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each tool at each split")
    found, unavailable = measure(parser.parse_args().seconds)
    print(overview(found))
    errors = {
        name: max(abs(share - SHARE) for share in shares.values()) for name, shares in found.items()
    }
    figures = {
        "true_share": SHARE,
        "interval_s": INTERVAL_S,
        "core": core.name,
        "shares_by_calls": found,
        "largest_error": errors,
        "unavailable": unavailable,
    }
    print(Result("sampler_bias", figures, targets_of(found)).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
