"""Time by line of operations: stacks are sampled while one of them runs."""

from __future__ import annotations

import io
import linecache
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from stepscope.analyze.lines import LineFold
from stepscope.collect.stacks import StackCollector, tell_stacks_again
from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.finding import Finding, Location
from stepscope.model.lines import LineProfile, LineTime
from stepscope.model.own_code import is_ours
from stepscope.model.process import ProcessInfo
from stepscope.session.extras import Extra
from stepscope.session.inside import Inside

__all__ = ["Lines", "at_hottest_line", "line_evidence", "lines_table"]


class _Stacks:
    """Short intervals while an operation runs, for all profilers of this process."""

    def __init__(self, session: Inside, interval_s: float) -> None:
        self._session = session
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._begin()
        session.at_tick(self._rest)

    def _begin(self) -> None:
        self.pid = os.getpid()
        self._open = 0
        self._collector = StackCollector(self._interval_s)

    def enter(self) -> None:
        with self._lock:
            if self.pid != os.getpid():  # a forked child begins anew
                self._begin()
            self._open += 1
            self._collector.start(self._session.recorder)

    def leave(self) -> None:
        with self._lock:
            self._open -= 1

    def _rest(self) -> None:
        """Now and then: starting it takes a millisecond, so it goes on between two runs."""
        with self._lock:
            if not self._open:
                self._collector.stop()

    def resolve(self) -> None:
        self._collector.resolve()


_stacks: _Stacks | None = None


class Lines(Extra):
    """What samples of the stack tell about the operations of one profiler."""

    def __init__(self, session: Inside, interval_s: float) -> None:
        global _stacks
        self._session = session
        self._fold = LineFold()
        if _stacks is None:
            _stacks = _Stacks(session, interval_s)
        self._stacks = _stacks
        session.follow(self)
        tell_stacks_again()  # samples of what was named before will come too

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        """Its own process only: numbers of stacks are those of one process."""
        if process.pid == os.getpid():
            for batch in batches:
                self._fold.update(batch)

    def after_fork(self) -> None:
        self._fold = LineFold()

    def enter(self, identity: str) -> None:
        self._stacks.enter()

    def begun(self, identity: str) -> None:
        self._session.mark(names.OPERATION_BEGIN, identity, _depth_of_caller())

    def leave(self, token: None, identity: str) -> None:
        self._stacks.leave()

    def profile(self, identity: str) -> LineProfile:
        """Where the time of all runs so far went."""
        self._stacks.resolve()
        self._session.pull()
        return self._fold.get(identity)


def _depth_of_caller() -> int:
    """How deep in the stack the program's own frame is that enters: 1 is the outermost."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename, frame.f_code.co_qualname):
        frame = frame.f_back
    depth = 1
    while frame.f_back is not None:
        frame = frame.f_back
        depth += 1
    return depth


def hottest_line(profile: LineProfile) -> LineTime | None:
    """The line with the most time of its own; None: no sample fell into the operation."""
    return next(iter(profile.lines), None)


def line_evidence(profile: LineProfile) -> Iterator[str]:
    """Where the time of an operation goes, in a sentence."""
    line = hottest_line(profile)
    if line is not None:
        share = line.self_ns / profile.total_ns
        where = f"{Path(line.file).name}:{line.line} ({line.function})"
        yield f"Hottest line: {where}, {share:.0%} of its time in {profile.samples} samples."


def at_hottest_line(finding: Finding, profile: LineProfile) -> Finding:
    """A finding about computing, with the line that most of it goes to."""
    line = hottest_line(profile)
    if line is None or finding.kind not in ("cpu-bound", "input-cpu"):
        return finding
    return replace(
        finding,
        location=Location(line.file, line.line, line.function),
        evidence=(*finding.evidence, *line_evidence(profile)),
        missing=tuple(one for one in finding.missing if "lines" not in one),
    )


def lines_table(profile: LineProfile, title: str, width: int = 100) -> str:
    """The table of a line profile as text, with the source of the lines where it can be read."""
    from stepscope.report.console import console_on
    from stepscope.report.lines import render_lines

    text = io.StringIO()
    console = console_on(text, width)
    render_lines(profile, console, linecache.getline, title)
    return text.getvalue()
