"""The monitor of a program in the program itself: the same core as `run --watch`, fed from what is
recorded here, in the sampler's thread."""

from __future__ import annotations

import atexit
import os
import platform
import time
import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from stepscope.config import ENV_RUN
from stepscope.model.alert import Alert
from stepscope.model.event import Batch, joined
from stepscope.model.process import ProcessInfo
from stepscope.model.watching import Condition, Explained
from stepscope.monitor.core import Identity, Monitor
from stepscope.monitor.settings import WatchSettings
from stepscope.session.callbacks import AlertCallback, Callbacks
from stepscope.session.feeding import Feed
from stepscope.session.inside import Inside, inside
from stepscope.session.machine_speed import MachineSpeed
from stepscope.session.monitor_figures import Watched, monitoring_summary, nothing_measured
from stepscope.session.monitor_settings import run_name
from stepscope.session.step_budget import StepBudget
from stepscope.session.suspicion import Suspicion

if TYPE_CHECKING:
    from stepscope.session.monitor_sinks import MonitorSinks

__all__ = ["MonitorInside"]

_ASLEEP_NS: Final = 10_000_000_000  # this long without a look, beyond the usual: we were stopped
_LONGEST_PAUSE_NS: Final = 10_000_000_000  # between two looks (session/watchers.py)
_STEP_WINDOW_S: Final = 5.0  # of steps in general, with all their phases, no more is told
_LEAST_HOLD_S: Final = 0.5  # of a stall
_MOST_ALERTS: Final = 1000  # that are kept to be asked for
_CALLBACKS_S: Final = 2.0  # patience with functions, when it is stopped
_FRESH_NS: Final = 50_000_000  # a summary is made anew after so long, or
_COST_SHARE: Final = 100  # after so many times what making it took


class MonitorInside:
    """From `start` to `stop`, and again. Alerts and figures of the last time stay until then.

    alert_threshold: the least severity that callbacks are told of. alerts_dir: where alerts wait
    for sinks; None: in memory. Nothing here raises into the program, but for settings that cannot
    be: UsageError, MissingExtraError.
    """

    def __init__(
        self,
        settings: WatchSettings,
        interval_s: float,
        alert_threshold: float,
        alerts_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.configure(settings, interval_s, alert_threshold, alerts_dir)
        self._callbacks = Callbacks(self._callback_failed)
        self._engine: Inside | None = None  # while it runs
        self._is_abandoned = False
        self._begin()

    def configure(
        self,
        settings: WatchSettings,
        interval_s: float,
        alert_threshold: float,
        alerts_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """What counts from the next start."""
        self.interval_s = interval_s
        self._settings, self._alert_threshold = _with_time_to_look(settings), alert_threshold
        self._alerts_dir = alerts_dir

    def _begin(self) -> None:
        self.alerts: deque[Alert] = deque(maxlen=_MOST_ALERTS)
        self.problems: list[str] = []
        self._told: set[str] = set()  # alerts that callbacks know of, while they are open
        self._watched = Watched()
        self._monitor: Monitor | None = None
        self._sinks: MonitorSinks | None = None
        self._looked_ns = 0
        self._summary: dict[str, Any] | None = None
        self._fresh_until_ns = 0

    # ---- life ----

    @property
    def is_running(self) -> bool:
        return self._engine is not None

    def start(self) -> None:
        """Again while it runs: nothing happens."""
        if self._engine is not None:
            return
        self._begin()
        engine = inside()
        if self._settings.sinks:
            from stepscope.session.monitor_sinks import MonitorSinks  # most have none

            self._sinks = MonitorSinks(self._settings.sinks, self._alerts_dir)
        identity = Identity(run_name(), platform.node())
        self._monitor = Monitor(self._settings, identity, self._explain, lambda: uuid.uuid4().hex)
        self._speed = MachineSpeed()
        self._suspicion = Suspicion(engine.recorder)
        self._feed = Feed(
            self._speed, self._monitor, budget=StepBudget(self.interval_s), window_s=_STEP_WINDOW_S
        )
        if self._sinks is not None and self._sinks.newest is not None:
            self._feed.add(self._sinks.newest)
        self._engine = engine
        now_ns, cpu_ns = _clocks(engine)
        self._watched = Watched(now_ns, now_ns, cpu_ns, cpu_ns)
        atexit.register(self.stop)
        engine.follow(self)
        engine.watch(self)

    def stop(self) -> None:
        """What is open is over with it. Waits a moment for functions and sinks to be told."""
        engine, monitor = self._engine, self._monitor
        if engine is None or monitor is None:
            return
        engine.unwatch(self)
        engine.look()
        engine.unfollow(self)
        with engine.lock:
            if self._engine is None:  # another thread was quicker
                return
            self._engine = None
            self._look_at(engine)
            self._note_time(engine)
            self._tell(monitor.ended(self._watched.end_ns, time.time()))
            self._suspicion.end()
            self._summary = None
        atexit.unregister(self.stop)
        self._callbacks.wait(_CALLBACKS_S)
        if self._sinks is not None:
            self._sinks.close()

    def abandon(self) -> None:
        """Nobody has it any more. The garbage collector calls this, at any moment: the sampler's
        thread stops it with its next look."""
        self._is_abandoned = True

    # ---- a follower and a watcher of session/inside.py ----

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        if self._engine is not None:
            self._feed.update(process, joined(batches))

    def look(self) -> None:
        engine = self._engine
        if engine is None:
            return
        if self._is_abandoned:
            self.stop()
            return
        with engine.lock:
            self._look_at(engine)

    def after_fork(self) -> None:
        """In a forked child: what is watched is the parent."""
        if self._engine is not None:
            self._engine = self._sinks = None
            self._callbacks.after_fork()

    def _look_at(self, engine: Inside) -> None:
        monitor = self._monitor
        if monitor is None:
            return
        now_ns = engine.recorder.now_ns()
        usual_ns = max(_LONGEST_PAUSE_NS, int(self.interval_s * 1e9))
        if self._looked_ns and now_ns - self._looked_ns > usual_ns + _ASLEEP_NS:
            monitor.pause(self._looked_ns, now_ns)
        self._looked_ns = now_ns
        self._tell(monitor.tick(now_ns, time.time()))
        self._suspicion.update(monitor.pending)
        for alert in monitor.open_alerts:  # it may have become worse
            self._tell_callbacks(alert)
        if self._sinks is not None:
            self._sinks.pass_on()

    # ---- telling ----

    def add_callback(self, callback: AlertCallback) -> None:
        self._callbacks.add(callback)

    def remove_callback(self, callback: AlertCallback) -> bool:
        return self._callbacks.remove(callback)

    def _tell(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            self.alerts.append(alert)
            if self._sinks is not None:
                self._sinks.tell(alert)
            if alert.is_firing:
                self._tell_callbacks(alert)
            else:
                self._told.discard(alert.id)

    def _tell_callbacks(self, alert: Alert) -> None:
        """Each incident once, as soon as it is bad enough."""
        if alert.severity >= self._alert_threshold and alert.id not in self._told:
            self._told.add(alert.id)
            self._callbacks.tell(alert)

    def _callback_failed(self, name: str, error: BaseException) -> None:
        """Somebody else's code, in somebody else's thread."""
        inside().recorder.failed(f"the alert callback {name}", error)

    def _explain(self, condition: Condition) -> Explained:
        # An alert is rare: until then nobody needs these.
        from stepscope.session.analysis import RunFold
        from stepscope.session.explaining import Explainer
        from stepscope.session.recent import recent_fold

        engine = self._engine or inside()
        self._suspicion.confirm()
        fold = recent_fold(engine.run, engine.base) if condition.asks else RunFold()
        now_ns = engine.recorder.now_ns
        knows_before = ENV_RUN in os.environ  # there stacks are sampled all the time
        return Explainer(fold, self._speed, now_ns, self._add_problem, knows_before)(condition)

    def _add_problem(self, problem: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(problem)

    # ---- results ----

    def summary(self) -> dict[str, Any]:
        """Plain JSON. Made anew when the last one is long enough ago: asking often is cheap."""
        engine = self._engine
        if self._monitor is None:
            return nothing_measured(self.interval_s)
        if engine is None:
            if self._summary is None:
                self._summary = self._made(self._monitor)
            return dict(self._summary)
        began_ns = engine.recorder.now_ns()
        if self._summary is None or began_ns >= self._fresh_until_ns:
            engine.look()
            engine.pull()
            with engine.lock:
                self._look_at(engine)
                self._note_time(engine)
                self._summary = self._made(self._monitor)
            took_ns = engine.recorder.now_ns() - began_ns
            self._fresh_until_ns = began_ns + took_ns + max(_FRESH_NS, _COST_SHARE * took_ns)
        return dict(self._summary)

    def _note_time(self, engine: Inside) -> None:
        now_ns, cpu_ns = _clocks(engine)
        self._watched = self._watched._replace(end_ns=now_ns, cpu_end_ns=cpu_ns)

    def _made(self, monitor: Monitor) -> dict[str, Any]:
        found = monitoring_summary(self._watched, monitor, self.alerts, self.interval_s)
        return found | {
            "steps": found["steps"] + self._feed.untold_steps,
            "callback_errors": self._callbacks.errors,
            "callbacks_untold": self._callbacks.untold,
            "problems": [*self.problems, *([] if self._sinks is None else self._sinks.problems())],
        }


def _with_time_to_look(settings: WatchSettings) -> WatchSettings:
    """A stall is suspected for a moment before it is told: until then its stacks are sampled."""
    stall = settings.rules.stall
    hold_s = max(_LEAST_HOLD_S, stall.hold_s or 0.0)
    return replace(settings, rules=replace(settings.rules, stall=replace(stall, hold_s=hold_s)))


def _clocks(engine: Inside) -> tuple[int, int]:
    """Now, and the CPU time so far."""
    return engine.recorder.now_ns(), sum(engine.recorder.core.cpu_now())
