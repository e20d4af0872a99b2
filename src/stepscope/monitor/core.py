"""The monitor: told steps and readings, asked what is new."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from stepscope.model.alert import Alert
from stepscope.model.watching import Condition, Explain, Explained, Reading, StepSeen, StepsPassed
from stepscope.monitor.active_time import ActiveTime
from stepscope.monitor.alerts import Identity, Moment, joined, raised, resolved
from stepscope.monitor.incidents import Held, Incident, Incidents
from stepscope.monitor.ruleset import Entry, entries
from stepscope.monitor.series import MonitoringSummary, SeriesKey, SeriesTable
from stepscope.monitor.settings import WatchSettings

__all__ = ["Identity", "Monitor"]

_REMEMBERED: Final = 64  # alerts that are over, whose capture may still come
_LARGEST: Final = 1e100  # what is beyond is as good as infinite: squares of it would be
_MOST_RANKS: Final = 1024


class _Told(NamedTuple):
    alert: Alert
    wants_capture: bool


class Monitor:
    """Rules, incidents and figures of one run.

    Knows no clock: times come with what it is told, `…_ns` on the monotonic clock, `…_unix` on the
    wall's, which may jump. Whoever drives it calls all of it from one thread. A rule that fails is
    off from then on; nothing is raised.
    """

    def __init__(
        self,
        settings: WatchSettings,
        identity: Identity,
        explain: Explain,
        new_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._explain = explain
        self._new_id = new_id
        self._take(entries(settings))
        self._clock = ActiveTime()
        self._incidents = Incidents(settings.watch)
        self._series = SeriesTable()
        self._told: dict[int, _Told] = {}  # by number of the incident, while it is open
        self._over: OrderedDict[str, Alert] = OrderedDict()
        self._asked: set[str] = set()  # alerts that a capture was promised for
        self._last_steps: dict[int, int] = {}  # by rank
        self._first_ns: int | None = None
        self._last_ns = 0
        self._steps = self._alerts = self._not_finite = self._left_out = 0
        self._broken: dict[str, str] = {}

    def step(self, seen: StepSeen) -> None:
        """A step is over; those of a rank in their order."""
        knows = seen.rank in self._last_steps or len(self._last_steps) < _MOST_RANKS
        if not knows or seen.end_ns < seen.start_ns:
            self._left_out += 1
            return
        self._notice(seen.end_ns)
        # Some may have been passed by. Who was started again counts from the beginning.
        passed = seen.number - self._last_steps.get(seen.rank, 0)
        self._steps += passed if passed > 0 else 1
        self._last_steps[seen.rank] = seen.number
        seen = self._active_step(seen)
        if not seen.is_special:
            key = SeriesKey("step_seconds", "", seen.rank)
            self._series.update(key, seen.end_ns / 1e9, seen.duration_ns / 1e9)
        for entry in self._of_steps:
            try:
                entry.rule.step(seen)
            except Exception as error:  # noqa: BLE001 - it may be the user's; the others go on
                self._switch_off(entry, error)

    def passed(self, steps: StepsPassed) -> None:
        """Steps of a rank are over that are not going to be told."""
        self._notice(steps.end_ns)
        steps = steps._replace(end_ns=self._clock.active(steps.end_ns))
        for entry in self._of_passed:
            try:
                entry.rule.passed(steps)
            except Exception as error:  # noqa: BLE001 - it may be the user's; the others go on
                self._switch_off(entry, error)

    def reading(self, reading: Reading) -> None:
        """A value was read. Of what is not finite only rules about losses hear."""
        self._notice(reading.time_ns)
        active_ns = self._clock.active(reading.time_ns)
        if active_ns != reading.time_ns:
            reading = reading._replace(time_ns=active_ns)
        if not abs(reading.value) < _LARGEST:  # nor what is no number
            self._not_finite += 1
            if "loss" not in reading.metric:
                return
            reading = reading._replace(value=reading.value * math.inf)
        elif reading.metric != "step_seconds":  # of that we have every single one
            key = SeriesKey(reading.metric, reading.label, reading.rank)
            if not self._series.update(key, reading.time_ns / 1e9, reading.value):
                return
        for entry in self._of_readings:
            try:
                entry.rule.reading(reading)
            except Exception as error:  # noqa: BLE001 - it may be the user's; the others go on
                self._switch_off(entry, error)

    def left(self, rank: int) -> None:
        """The process of that rank has ended, and the run goes on."""
        for entry in list(self._entries):
            try:
                entry.rule.left(rank)
            except Exception as error:  # noqa: BLE001 - it may be the user's; the others go on
                self._switch_off(entry, error)

    def pause(self, from_ns: int, to_ns: int) -> None:
        """The machine or the program was suspended: that time counts for no rule. To be told
        before what happened after it."""
        self._clock.pause(from_ns, to_ns)

    def tick(self, now_ns: int, now_unix: float) -> list[Alert]:
        """What is new since the last call: alerts that are raised, and that are over."""
        self._notice(now_ns)
        return self._look(Moment(now_ns, now_unix), self._entries)

    def ended(self, now_ns: int, now_unix: float) -> list[Alert]:
        """The run is over: a last look, but for what only a running program can have, and all that
        is open is over with it."""
        now = Moment(now_ns, now_unix)
        self._notice(now_ns)
        lasting = [one for one in self._entries if not one.rule.needs_a_running_program]
        found = self._look(now, lasting)
        for incident in self._incidents.close_all(self._clock.active(now_ns)):
            found += self._resolve(incident, now, with_the_run=True)
        return found

    @property
    def open_alerts(self) -> list[Alert]:
        """As bad as they are now, the oldest first."""
        numbers = [one.number for one in self._incidents.open]
        return [self._told[number].alert for number in numbers if number in self._told]

    @property
    def pending(self) -> list[Condition]:
        """What holds at this moment, and is an alert if it goes on."""
        return self._incidents.pending

    def wants_capture(self, alert: Alert) -> bool:
        """Whether a closer look is to be taken for it. A yes is said once, and counts as one of
        those that a run may have."""
        wanted = any(one.wants_capture for one in self._told.values() if one.alert.id == alert.id)
        has_room = len(self._asked) < self._settings.watch.captures
        if not (wanted and has_room) or alert.id in self._asked or not alert.is_firing:
            return False
        self._asked.add(alert.id)
        return True

    def attach_capture(self, alert_id: str, path: str) -> Alert | None:
        """The alert with the closer look that was taken for it; None: it is not known any more."""
        for place, told in self._told.items():
            if told.alert.id == alert_id:
                alert = replace(told.alert, capture=path)
                self._told[place] = told._replace(alert=alert)
                return alert
        if alert_id in self._over:
            self._over[alert_id] = replace(self._over[alert_id], capture=path)
        return self._over.get(alert_id)

    def summary(self) -> MonitoringSummary:
        """All of the run so far. Some ms for each metric: not for every tick."""
        return MonitoringSummary(
            metrics=self._series.summaries(),
            steps=self._steps,
            watched_s=0.0 if self._first_ns is None else (self._last_ns - self._first_ns) / 1e9,
            alerts=self._alerts,
            open_alerts=len(self._incidents.open),
            untold=self._incidents.untold,
            captures=len(self._asked),
            left_out=self._left_out + self._series.left_out + self._incidents.left_out,
            not_finite=self._not_finite,
            broken=dict(self._broken),
        )

    def _notice(self, time_ns: int) -> None:
        if self._first_ns is None:
            self._first_ns = time_ns
        self._last_ns = max(self._last_ns, time_ns)

    def _active_step(self, seen: StepSeen) -> StepSeen:
        """In active time. One with a pause in it is not to be held against others."""
        start_ns, end_ns = self._clock.active(seen.start_ns), self._clock.active(seen.end_ns)
        if start_ns == seen.start_ns and end_ns == seen.end_ns:
            return seen  # there was none
        across = end_ns - start_ns < seen.duration_ns
        is_special = seen.is_special or across
        return seen._replace(start_ns=start_ns, end_ns=end_ns, is_special=is_special)

    def _look(self, now: Moment, among: Iterable[Entry]) -> list[Alert]:
        active_ns = self._clock.active(now.now_ns)
        held: list[Held] = []
        wanting: set[tuple[str, str]] = set()
        for entry in among:
            for condition in self._conditions(entry, active_ns):
                held.append(Held(condition, entry.hold_s))
                if entry.capture:
                    wanting.add((condition.rule, condition.key))
        changes = self._incidents.update(held, active_ns)
        for incident in self._incidents.open:
            told = self._told.get(incident.number)
            if told is not None:
                self._told[incident.number] = told._replace(alert=joined(told.alert, incident))
        found = [self._raise(one, now, wanting) for one in changes.opened]
        for incident in changes.closed:
            found += self._resolve(incident, now)
        return found

    def _raise(self, incident: Incident, now: Moment, wanting: set[tuple[str, str]]) -> Alert:
        first = incident.first
        step = first.step if first.step is not None else self._last_steps.get(first.rank)
        incident.first = replace(first, began_ns=self._clock.real(first.began_ns), step=step)
        alert = raised(
            self._new_id(), incident, self._explained(incident.first), self._identity, now
        )
        self._told[incident.number] = _Told(alert, not wanting.isdisjoint(incident.members))
        self._alerts += 1
        return alert

    def _resolve(
        self, incident: Incident, now: Moment, *, with_the_run: bool = False
    ) -> list[Alert]:
        told = self._told.pop(incident.number, None)
        if told is None or incident.ended_ns is None:
            return []
        ended_ns = self._clock.real(incident.ended_ns)
        alert = resolved(joined(told.alert, incident), ended_ns, now, with_the_run=with_the_run)
        self._over[alert.id] = alert
        while len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        return [alert]

    def _explained(self, condition: Condition) -> Explained:
        try:
            return self._explain(condition)
        except Exception as error:  # noqa: BLE001 - an alert without a place is still an alert
            self._broken["explain"] = f"{type(error).__name__}: {error}"
            return Explained()

    def _conditions(self, entry: Entry, active_ns: int) -> list[Condition]:
        try:
            return entry.conditions(active_ns)
        except Exception as error:  # noqa: BLE001 - it may be the user's; the others go on
            self._switch_off(entry, error)
            return []

    def _switch_off(self, entry: Entry, error: Exception) -> None:
        self._broken[entry.name] = f"{type(error).__name__}: {error}"
        self._take([one for one in self._entries if one is not entry])

    def _take(self, rules: list[Entry]) -> None:
        """Most rules hear of one of the two only, and there may be thousands a second."""
        self._entries = rules
        self._of_steps = [one for one in rules if one.hears("step")]
        self._of_passed = [one for one in rules if one.hears("passed")]
        self._of_readings = [one for one in rules if one.hears("reading")]
