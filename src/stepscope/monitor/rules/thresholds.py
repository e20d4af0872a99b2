"""A metric that is beyond a limit which the user set."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.metric_table import metric_named
from stepscope.model.watching import Condition, Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import graded, with_length
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Threshold
from stepscope.monitor.words import amount, duration

__all__ = ["ThresholdRule"]

_BACK = 0.05  # of the limit, that a value has to come back before it is no longer beyond it
_SURE_READINGS = 5  # beyond it in a row: as good as certain


class _Series:
    """One series of the metric. readings: beyond the limit, in a row."""

    def __init__(self, enter: float, leave: float) -> None:
        self.gate = Gate(enter, leave)
        self.readings = 0
        self.last: Reading | None = None


class ThresholdRule(Rule):
    """Severity: as the user said; else 0.5 at the limit, up to 0.9 where it is left as far behind
    as it is from 0 (from 1, for shares), more the longer it lasts. Confidence: from how many
    readings in a row."""

    def __init__(self, settings: Threshold) -> None:
        self._settings = settings
        self._metric = metric_named(settings.metric)
        self._is_above = settings.above is not None
        limit = settings.above if settings.above is not None else settings.below
        assert limit is not None  # settings say so
        self._limit = limit
        self._series: dict[tuple[int, str], _Series] = {}

    def reading(self, reading: Reading) -> None:
        settings = self._settings
        if reading.metric != settings.metric or settings.label not in ("", reading.label):
            return
        series = self._series.get((reading.rank, reading.label))
        if series is None:
            margin = abs(self._limit) * _BACK * (-1 if self._is_above else 1)
            series = _Series(self._limit, self._limit + margin)
            self._series[reading.rank, reading.label] = series
        beyond = series.gate.update(reading.time_ns, reading.value)
        series.readings = series.readings + 1 if beyond else 0
        series.last = reading

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for series in self._series.values():
            began_ns, last = series.gate.began_ns, series.last
            if began_ns is None or last is None:
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
