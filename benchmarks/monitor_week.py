"""Does a run that goes on for a week stay as small as after a day?

Ten million steps of a made-up program (made_week.py) go through what the launcher does with a real
one: frames on disk are followed, folded, given to the monitor with all its rules, converted to
Arrow and thinned when they are more than the limit. The clock is theirs, so a week takes minutes;
the launcher looks once in a minute of theirs, not once a second. Seven of eight minutes take a
shorter way for what the training process recorded: its files are read, converted and thinned, the
monitor is told of every step and the loop of how many there were, but they are not taken apart into
phases, stacks and layers: that alone would take half an hour. At every tenth of the week memory,
files and descriptors are counted.

    python benchmarks/monitor_week.py
    python benchmarks/monitor_week.py --steps 500000
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from harness import Result, Target, at_most, progress, table
from made_week import MINUTE_NS, PROGRAM, STEP_NS, STEPS_A_MINUTE, MadeWeek, left_out
from stepscope.config import DEFAULTS
from stepscope.model.watching import Explained, StepSeen
from stepscope.monitor.core import Identity, Monitor
from stepscope.monitor.settings import WatchSettings
from stepscope.session.analysis import RunFold
from stepscope.session.feeding import Feed
from stepscope.store.convert import Converter
from stepscope.store.layout import frames_number
from stepscope.store.light import import_pyarrow_lightly
from stepscope.store.tail import RunTail

WEEK_STEPS = 10_000_000
MB = 10**6
GROWTH_LIMIT_MB = 5.0
CPU_LIMIT_SHARE = 0.01
_IN_FULL_EVERY = 8
_TENTHS = 10
_SETTLED = slice(1, 5)  # tenths: everything that fills up to a bound is full by then


class Point(NamedTuple):
    """What the launcher holds at some time of the week."""

    share: float
    rss_mb: float  # the middle of the tenth before: converting a file takes some for a moment
    disk_mb: float
    files: int
    descriptors: int


class Launcher:
    """What session/watch.py does at each look, with a clock that is given."""

    def __init__(self, run: Path, limit_bytes: int) -> None:
        self.monitor = Monitor(
            WatchSettings(), Identity(run.name, "here"), lambda _: Explained(), _numbers()
        )
        self._feed = Feed(self.monitor, has_launcher=True, is_told_steps=True)
        self.fold = RunFold(run, self._feed.on_step_of)
        self._tail = RunTail(run)
        self.converter = Converter(run, limit_bytes)
        self.alerts = 0
        self.cpu_s, self.cpu_minutes = 0.0, 0  # of minutes that went the long way

    def look(self, now_ns: int, running: set[int], *, in_full: bool) -> None:
        """in_full: everything is folded; else of the training process only how many steps."""
        before = time.process_time()
        self._tail.note_ended(lambda process: process.pid in running)
        for news in self._tail.read_new():
            if in_full or news.process.pid != PROGRAM:
                self.fold.update(news.process, news.batches)
                self._feed.update(news.process, news.batches)
            else:
                self.fold.update(news.process, [left_out(now_ns)])
                self._tell_steps(now_ns)
        self.alerts += len(self.monitor.tick(now_ns, now_ns / 1e9))
        if self._tail.has_done_files:
            self.converter.convert(
                lambda base, path: frames_number(path) <= self._tail.done_through(base)
            )
        if in_full:
            self.cpu_s += time.process_time() - before
            self.cpu_minutes += 1

    def _tell_steps(self, now_ns: int) -> None:
        for end_ns in range(now_ns - MINUTE_NS + STEP_NS, now_ns + 1, STEP_NS):
            number = end_ns // STEP_NS
            phases = {"forward": 20_000_000 + number % 997, "backward": STEP_NS - 20_000_000}
            self.monitor.step(StepSeen(0, number, end_ns - STEP_NS, end_ns, phases))


def _numbers() -> Callable[[], str]:
    given = iter(range(1 << 62))
    return lambda: str(next(given))


def simulate_week(steps: int, tell: Callable[[Point], None] = lambda _: None) -> dict[str, float]:
    """A week of that many steps, as figures; each is told of as `Point` at every tenth."""
    import_pyarrow_lightly()
    run = Path(tempfile.mkdtemp(prefix="stepscope-week-"))
    try:
        return _simulate(run, steps, tell)
    finally:
        shutil.rmtree(run, ignore_errors=True)


def _simulate(run: Path, steps: int, tell: Callable[[Point], None]) -> dict[str, float]:
    week, launcher = MadeWeek(run), Launcher(run, DEFAULTS.limit_bytes)
    minutes = max(_TENTHS, steps // STEPS_A_MINUTE)
    points: list[Point] = []
    rss_bytes: list[int] = []  # of this tenth
    most_bytes = most_rss_bytes = 0
    for minute in range(1, minutes + 1):
        week.next_minute()
        launcher.look(week.now_ns, week.running, in_full=minute % _IN_FULL_EVERY == 1)
        rss_bytes.append(_rss_bytes())
        if minute % 10 == 0:
            most_bytes = max(most_bytes, _disk_bytes(run))
        if minute * _TENTHS // minutes > len(points):
            points.append(_point(minute / minutes, run, median(rss_bytes)))
            most_rss_bytes = max(most_rss_bytes, *rss_bytes)
            rss_bytes.clear()
            tell(points[-1])
    launcher.converter.close()
    if launcher.converter.problems:
        raise RuntimeError(launcher.converter.problems[0])
    (loop,) = launcher.fold.rank_loops()
    settled = min(points[_SETTLED], key=lambda point: point.rss_mb)
    return {
        "steps": float(minutes * STEPS_A_MINUTE),
        "steps_missed": float(minutes * STEPS_A_MINUTE - loop.steps),
        "rss_mb": points[-1].rss_mb,
        "rss_mb_most": most_rss_bytes / MB,
        "rss_growth_mb": points[-1].rss_mb - settled.rss_mb,
        "disk_mb_most": most_bytes / MB,
        "limit_mb": DEFAULTS.limit_bytes / MB,
        "files_most": float(max(point.files for point in points)),
        "descriptors_growth": float(points[-1].descriptors - settled.descriptors),
        "launcher_cpu_share": launcher.cpu_s / (launcher.cpu_minutes * MINUTE_NS / 1e9),
        "alerts": float(launcher.alerts),
    }


def _point(share: float, run: Path, rss_bytes: float) -> Point:
    return Point(
        share,
        rss_bytes / MB,
        _disk_bytes(run) / MB,
        sum(1 for path in run.rglob("*") if path.is_file()),
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - counts itself, always
    )


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _disk_bytes(run: Path) -> int:
    return sum(path.stat().st_size for path in run.rglob("*") if path.is_file())


def targets(figures: dict[str, float]) -> tuple[Target, ...]:
    return (
        at_most("memory gained since 20 % to 50 % of the week, MB", figures["rss_growth_mb"],
                GROWTH_LIMIT_MB),
        at_most("most on disk, MB", figures["disk_mb_most"], figures["limit_mb"]),
        at_most("descriptors gained", figures["descriptors_growth"], 0),
        at_most("steps that were not counted", abs(figures["steps_missed"]), 0),
        at_most("CPU of the launcher, share of a core", figures["launcher_cpu_share"],
                CPU_LIMIT_SHARE),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=WEEK_STEPS)
    wanted = parser.parse_args()
    points: list[Point] = []
    began = time.monotonic()

    def tell(point: Point) -> None:
        points.append(point)
        left_s = (time.monotonic() - began) * (1 / point.share - 1)
        progress(
            f"{point.share:.0%} of the week: {point.rss_mb:.1f} MB of memory,"
            f" {point.disk_mb:.1f} MB on disk; {left_s:.0f} s to go"
        )

    figures = simulate_week(wanted.steps, tell)
    header = ("of the week", "memory MB", "disk MB", "files", "descriptors")
    print(table(header, [(f"{p.share:.0%}", f"{p.rss_mb:.1f}", f"{p.disk_mb:.1f}", str(p.files),
                          str(p.descriptors)) for p in points]))  # fmt: skip
    result = Result("monitor_week", figures, targets(figures))
    print(result.line())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
