"""The launcher's side of `stepscope watch`: a run as it is now, told while somebody asks."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.analyze.series import Series
from stepscope.model.metric_table import METRICS
from stepscope.model.watching import Reading, StepSeen
from stepscope.store.live_request import is_requested

if TYPE_CHECKING:
    from stepscope.analyze.loop import Loop
    from stepscope.analyze.resources import ResourceFold
    from stepscope.analyze.tally import Progress
    from stepscope.model.finding import Finding
    from stepscope.model.live import History, Left, LiveView, ToldNow

__all__ = ["LiveFold", "LiveSources", "Outlook", "command_line"]

_TOLD: Final = 12  # values of the program's own that are followed
_VERDICT_S: Final = 10.0  # between two verdicts, at least
_VERDICT_SHARE: Final = 0.02  # of the time may go into them
_HISTORY_S: Final = 10
_S: Final = 1_000_000_000


class Outlook(NamedTuple):
    """What is to come, where it can be told. memory_limit_bytes None: the machine's memory."""

    ends: Left | None = None
    memory_full: Left | None = None
    memory_limit_bytes: float | None = None


class LiveSources(NamedTuple):
    """Where a view comes from. Each is called only while somebody watches.

    loops: one of each rank. progress: of the foremost process. verdict: what costs most so far;
    it may take long, and is asked for seldom.
    """

    loops: Callable[[], Sequence[Loop]]
    progress: Callable[[], Progress | None]
    resources: Callable[[], ResourceFold]
    verdict: Callable[[], Finding | None]
    outlook: Callable[[], Outlook] = Outlook


class LiveFold:
    """`look` once a second; `reading` (a listener of session/feeding.py) what the program tells."""

    def __init__(
        self,
        run: Path,
        meta: Mapping[str, Any],
        sources: LiveSources,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._run, self._meta, self._sources = run, meta, sources
        self._clock_ns, self._unix = clock_ns, unix
        self._told: dict[str, _Told] = {}
        self._verdict: Finding | None = None
        self._next_verdict_ns = 0
        self._history: tuple[History, ...] = ()
        self._next_history_ns = 0

    def step(self, seen: StepSeen) -> None:
        """Steps are read from the loops, when somebody asks."""

    def reading(self, reading: Reading) -> None:
        """Keeps what the program itself tells, of its first rank."""
        name = reading.metric
        if reading.rank or (name in METRICS and name != "loss"):
            return
        told = self._told.get(name)
        if told is None:
            if len(self._told) >= _TOLD:
                return
            told = self._told[name] = _Told(name)
        told.update(reading)

    def look(self, *, is_ending: bool = False) -> None:
        """Writes live.json if somebody asked for it. is_ending: the program has ended.

        OSError: it cannot be written.
        """
        now_unix = self._unix()
        if is_requested(self._run, now_unix):
            from stepscope.store.live import write_live

            write_live(self._run, self.view(now_unix, is_ending=is_ending))

    def view(self, now_unix: float, *, is_ending: bool = False) -> LiveView:
        """The run at this moment."""
        # Nothing of this is needed while nobody looks.
        from stepscope.analyze.live import phases_now, rank_now, recent, used_now
        from stepscope.model.live import LIVE_POINTS, LiveView, RunState
        from stepscope.session.run_alerts import alerts_to_show

        now_ns = self._clock_ns()
        loops, resources = self._sources.loops(), self._sources.resources()
        progress, outlook = self._sources.progress(), self._sources.outlook()
        pids = {loop.pid for loop in loops}
        lately = [recent(loop) for loop in loops]
        started = self._meta.get("started_unix")
        used = used_now(resources, pids, now_ns, outlook.memory_limit_bytes)
        return LiveView(
            run=str(self._meta.get("name", self._run.name)),
            state=RunState.ENDING if is_ending else RunState.RUNNING,
            told_unix=now_unix,
            command=command_line(self._meta),
            started_unix=started,
            elapsed_s=None if started is None else max(0.0, now_unix - started),
            steps=progress.steps if progress is not None else 0,
            steps_per_second=progress.steps_per_second if progress is not None else None,
            step_ms=lately[0].step_ms if lately else None,
            since_step_s=_since(loops, now_ns),
            ends=outlook.ends,
            recent_s=lately[0].lasted_ns / _S if lately else None,
            phases=phases_now(loops, lately),
            used=used.with_forecast(outlook.memory_full),
            history=self._history_now(loops, resources, now_ns),
            alerts=alerts_to_show(self._run),
            verdict=self._verdict_now(now_ns),
            told=tuple(told.now(LIVE_POINTS) for told in self._told.values()),
            ranks=tuple(rank_now(*both) for both in zip(loops, lately, strict=True)),
        )

    def _history_now(
        self, loops: Sequence[Loop], resources: ResourceFold, now_ns: int
    ) -> tuple[History, ...]:
        """Made anew when there is another point of it to see, at least every ten seconds."""
        from stepscope.analyze.over_time import histories
        from stepscope.analyze.timeline import make_timeline
        from stepscope.model.live import LIVE_POINTS

        if loops and now_ns >= self._next_history_ns:
            pids = {loop.pid for loop in loops}
            made = make_timeline(loops[0], resources, pids, 2 * LIVE_POINTS)
            self._history = histories(made)
            point_ns = loops[0].wall_ns // LIVE_POINTS
            self._next_history_ns = now_ns + min(_HISTORY_S * _S, point_ns)
        return self._history

    def _verdict_now(self, now_ns: int) -> Finding | None:
        """As new as its cost allows."""
        if now_ns >= self._next_verdict_ns:
            begun_ns = self._clock_ns()
            self._verdict = self._sources.verdict()
            took_ns = self._clock_ns() - begun_ns
            self._next_verdict_ns = now_ns + max(
                round(_VERDICT_S * _S), round(took_ns / _VERDICT_SHARE)
            )
        return self._verdict


class _Told:
    """A value of the program's own over the run."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._series = Series(lambda a, b: (a + b) / 2, points=1024)
        self._value: float | None = None
        self._step: int | None = None
        self._first_ns = self._last_ns = 0

    def update(self, reading: Reading) -> None:
        is_number = math.isfinite(reading.value)
        self._value, self._step = reading.value if is_number else None, reading.step
        if is_number:
            self._first_ns = self._first_ns or reading.time_ns
            self._last_ns = reading.time_ns
            self._series.update(reading.time_ns, reading.value)

    def now(self, most: int) -> ToldNow:
        from stepscope.analyze.over_time import in_pieces
        from stepscope.model.live import ToldNow

        points = self._series.points(0, 1 << 62)
        pieces = min(most, len(points))
        shown = in_pieces(points, self._first_ns, self._last_ns + 1, pieces, _mean)
        return ToldNow(self._name, self._value, self._step, shown)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _since(loops: Sequence[Loop], now_ns: int) -> float | None:
    """Since the rank that is ahead of the others ended a step."""
    ends_ns = [loop.end_ns for loop in loops]
    return max(0, now_ns - max(ends_ns)) / _S if ends_ns else None


def command_line(meta: Mapping[str, Any]) -> str:
    """As one would type it; cut, where it is very long."""
    command = meta.get("command")
    words = islice(command, 200) if isinstance(command, list | tuple) else ()
    return shlex.join(str(word)[:500] for word in words)[:2000]
