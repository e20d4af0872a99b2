"""A metric that is beyond a limit which the user set."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stepscope.model.metric_table import metric_named
from stepscope.model.watching import Condition, Crossing, Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import graded, with_length
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Threshold
from stepscope.monitor.words import amount, duration

__all__ = ["ThresholdRule"]

_BACK_SHARE = 0.05
_SURE_READINGS = 5  # beyond it in a row: as good as certain


class _Series:
    """One series of the metric. readings: beyond the limit, in a row."""

    def __init__(self, gate: Gate, first: Reading) -> None:
        self.gate = gate
        self.readings = self.times = self.beyond_ns = 0
        self.first_ns = self.last_ns = first.time_ns
        self.last = self.farthest = first

    def update(self, reading: Reading) -> None:
        was_beyond = self.gate.is_open
        passed_ns = max(0, reading.time_ns - self.last_ns)  # late: another thread was ahead of it
        if not self.gate.update(reading.time_ns, reading.value):
            self.readings = 0
        else:
            self.readings += 1
            self.times += not was_beyond
            self.beyond_ns += passed_ns if was_beyond else 0
        self.last_ns += passed_ns
        self.last = reading


class ThresholdRule(Rule):
    """Severity: as the user said; else 0.5 at the limit, up to 0.9 where it is left as far behind
    as it is from 0 (from 1, for shares), more the longer it lasts. Confidence: from how many
    readings in a row.

    back_share: of the limit, that a value has to come back before it is no longer beyond it: what
    moves about the limit is one alert. 0: the limit itself decides.
    """

    def __init__(self, settings: Threshold, back_share: float = _BACK_SHARE) -> None:
        self._settings = settings
        self._metric = metric_named(settings.metric)
        self._is_above = settings.above is not None
        limit = settings.above if settings.above is not None else settings.below
        assert limit is not None  # settings say so
        self._limit = limit
        self._back = abs(limit) * back_share
        self._series: dict[tuple[int, str], _Series] = {}

    def reading(self, reading: Reading) -> None:
        settings = self._settings
        if reading.metric != settings.metric or settings.label not in ("", reading.label):
            return
        series = self._series.get((reading.rank, reading.label))
        if series is None:
            series = self._series[reading.rank, reading.label] = _Series(self._gate(), reading)
        series.update(reading)
        if self._is_farther(reading, series.farthest):
            series.farthest = reading

    def _gate(self) -> Gate:
        if self._is_above:
            return Gate(self._limit, self._limit - self._back)
        # Beyond the limit at least by the least there is, or the gate were one for high values.
        return Gate(self._limit, math.nextafter(self._limit + self._back, math.inf))

    def _is_farther(self, one: Reading, other: Reading) -> bool:
        return one.value > other.value if self._is_above else one.value < other.value

    def crossing(self) -> Crossing:
        """Of the series that went farthest, whether it is beyond the limit now or not."""
        found: _Series | None = None
        for one in self._series.values():
            if found is None or self._is_farther(one.farthest, found.farthest):
                found = one
        if found is None:
            return Crossing(self._limit)
        watched_ns = found.last_ns - found.first_ns
        peak = found.farthest.value
        return Crossing(self._limit, found.times, peak, found.beyond_ns, watched_ns)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for series in self._series.values():
            began_ns, last = series.gate.began_ns, series.last
            if began_ns is None:
                continue
            # By the readings, not by the clock: it is not known what was after the last one.
            if last.time_ns - began_ns >= self._settings.for_s * 1e9:
                yield self._condition(series, last, began_ns, now_ns)

    def _condition(self, series: _Series, last: Reading, began_ns: int, now_ns: int) -> Condition:
        settings, unit = self._settings, self._metric.unit
        lasted_s = (now_ns - began_ns) / 1e9
        beyond = "above" if self._is_above else "below"
        of = f" of {self._metric.label} {last.label}" if last.label else ""
        limit = amount(self._limit, unit)
        named = f"{settings.name}: " if settings.name else ""
        return Condition(
            rule="threshold",
            key=f"{settings.title} {beyond} {self._limit:g} {last.label} {last.rank}",
            kind="threshold",
            title=f"{named}{settings.metric}{of} is {amount(last.value, unit)}, {beyond} {limit}",
            severity=self._severity(last.value, lasted_s),
            confidence=series.readings / (series.readings + 1.0)
            if series.readings < _SURE_READINGS
            else 1.0,
            began_ns=began_ns,
            evidence=(f"{beyond} {limit} for {duration(lasted_s)}, in {series.readings} readings",),
            rank=last.rank,
            step=last.step,
            metric=settings.metric,
            value=last.value,
            limit=self._limit,
            group=f"threshold {settings.title} {beyond} {self._limit:g}",
        )

    def _severity(self, value: float, lasted_s: float) -> float:
        if self._settings.severity is not None:
            return self._settings.severity
        room = abs(self._limit)
        if self._is_above and self._metric.name.endswith("_ratio") and 0.0 < self._limit < 1.0:
            room = 1.0 - self._limit
        far = abs(value - self._limit) / room if room else 1.0
        return with_length(graded(far, ((0.0, 0.5), (1.0, 0.9))), lasted_s)
