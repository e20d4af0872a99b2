"""The monitor of a run in the launcher: told what is read, asked once a second what is new."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.model.alert import Alert
from stepscope.model.capture_request import CaptureRequest
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.model.watching import Condition, Explained
from stepscope.monitor.alerts import Identity
from stepscope.monitor.core import Monitor
from stepscope.monitor.settings import WatchSettings
from stepscope.notify.build import make_sinks
from stepscope.notify.dispatch import Dispatcher
from stepscope.notify.sink import Served, SinkContext
from stepscope.session.explaining import Explainer
from stepscope.session.feeding import Feed, Hears, Newest
from stepscope.session.machine_speed import MachineSpeed
from stepscope.store.alerts import AlertStore

if TYPE_CHECKING:
    from stepscope.analyze.tally import OnStep
    from stepscope.session.analysis import RunFold

__all__ = ["Watched", "Watching"]

# So long without a look, which come every second: we or the machine slept, the program with us.
_ASLEEP_NS: Final = 10_000_000_000
_PATIENCE_S: Final = 5.0  # with sinks, at the end of the run
_BRIEF_S: Final = 1.0  # where one of them did not work before: what waits is on disk


class Watched(NamedTuple):
    """What is watched, and where its alerts are kept. runs: the folder with the index."""

    path: Path
    name: str
    runs: Path


class Watching:
    """Made before the program; `start` with it, `update` and `look` in turns, `finish` at its end.

    say: told each new notice. pages: where metrics can be read. UsageError, MissingExtraError: a
    sink cannot be made.
    """

    def __init__(
        self, run: Watched, settings: WatchSettings, say: Callable[[Alert], None] = lambda _: None
    ) -> None:
        self._say = say
        host = platform.node()
        self._monitor = Monitor(
            settings, Identity(run.name, host), self._explain, lambda: uuid.uuid4().hex
        )
        self._readings = Newest()
        self._speed = MachineSpeed()
        self._feed = Feed(
            self._speed, self._monitor, self._readings, has_launcher=True, is_told_steps=True
        )
        self._explainer: Explainer | None = None
        self._ask: Callable[[CaptureRequest], int] = lambda _: 0
        self._troubles: list[str] = []
        self._looked_ns = 0
        context = SinkContext(run.name, host, os.getpid(), run.path)
        sinks, metrics = make_sinks(settings.sinks, context)
        self.pages = [one.address for one in metrics if isinstance(one, Served)]
        self._dispatcher = Dispatcher(AlertStore(run.runs, run.path), sinks, metrics)

    def start(self, fold: RunFold, ask: Callable[[CaptureRequest], int]) -> None:
        """The program runs. fold: alerts are looked into with what it knows. ask: asks the program
        for a closer look."""
        self._explainer = Explainer(fold, self._speed, time.monotonic_ns, self._troubles.append)
        self._ask = ask
        self._dispatcher.start()

    def on_step_of(self, process: ProcessInfo) -> OnStep:
        """What the fold of a process's loop tells of its steps."""
        return self._feed.on_step_of(process)

    def also_tell(self, listener: Hears) -> None:
        """Before the start: somebody else wants to know of steps and readings."""
        self._feed.add(listener)

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        """What a process recorded; the fold of the report has had it before."""
        self._mind_sleep()
        self._feed.update(process, batches)

    def look(self) -> None:
        """Tell what is new, and pass on what was read."""
        self._mind_sleep()
        self._tell(self._monitor.tick(time.monotonic_ns(), time.time()))
        self._pass_on()

    def _mind_sleep(self) -> None:
        """Before anything that happened after it is told."""
        now_ns = time.monotonic_ns()
        if self._looked_ns and now_ns - self._looked_ns > _ASLEEP_NS:
            self._monitor.pause(self._looked_ns, now_ns)
        self._looked_ns = now_ns

    def captured(self, alert_id: str, path: str) -> None:
        """The closer look that was taken for an alert is in that file of the run folder: whoever
        reads of the alert finds it. Nobody is told a second time."""
        alert = self._monitor.attach_capture(alert_id, path)
        if alert is not None:
            self._dispatcher.tell(alert)

    def finish(self) -> list[str]:
        """The program has ended: all that is open is over with it. Gives what went wrong."""
        self._tell(self._monitor.ended(time.monotonic_ns(), time.time()))
        self._pass_on()
        self._dispatcher.close(_BRIEF_S if self._dispatcher.troubles else _PATIENCE_S)
        return [*self._problems()]

    @property
    def monitor(self) -> Monitor:
        return self._monitor

    def _tell(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            self._dispatcher.tell(alert)
            self._say(alert)
            if self._monitor.wants_capture(alert):
                of_memory = alert.finding.is_of_memory
                self._ask(CaptureRequest(operators=True, memory=of_memory, alert=alert.id))

    def _pass_on(self) -> None:
        readings = self._readings.take()
        if readings:
            self._dispatcher.update(readings)

    def _explain(self, condition: Condition) -> Explained:
        return Explained() if self._explainer is None else self._explainer(condition)

    def _problems(self) -> Iterable[str]:
        yield from self._troubles
        for name, why in self._dispatcher.troubles.items():
            yield f"alerts could not be told to {name}: {why}"
        counts = self._dispatcher.counts()
        if counts.pending:
            yield f"{counts.pending} notices wait to be delivered: stepscope alerts --send"
        for rule, why in self._monitor.summary().broken.items():
            yield f"the rule {rule} failed and was switched off: {why}"
