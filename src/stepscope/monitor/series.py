"""What every metric did over the run: bounded, however long it is and whatever names come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from stepscope.model.metric_table import METRICS
from stepscope.stats.forecast import ValueForecast, forecast
from stepscope.stats.running import Running, RunningTrend
from stepscope.stats.thinned import Thinned

__all__ = ["MetricSummary", "MonitoringSummary", "SeriesKey", "SeriesTable"]

MOST_KNOWN: Final = 1000  # series of the metrics in the table
MOST_OWN: Final = 200  # series of metrics that the program named
LONGEST_NAME: Final = 200
FORECAST: Final = frozenset({"memory_bytes", "gpu_memory_bytes", "steps_per_second"})
AHEAD_S: Final = 3600.0
FEWEST: Final = 12  # points, below which nothing is said of what comes


class SeriesKey(NamedTuple):
    metric: str
    label: str
    rank: int


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """Of one series. trend: None: too few values to tell. forecast: of memory and throughput, what
    they are going to be in `ahead_s` seconds if they go on like that."""

    count: int
    average: float
    low: float
    peak: float
    p50: float
    p95: float
    p99: float
    last: float
    trend: RunningTrend | None
    forecast: ValueForecast | None = None
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MonitoringSummary:
    """The run so far.

    left_out: readings of series beyond what is kept. not_finite: readings that were no number.
    alerts: raised; untold: conditions that came back within their cool-down. broken: rules that
    failed and are off, and why.
    """

    metrics: Mapping[SeriesKey, MetricSummary]
    steps: int
    watched_s: float
    alerts: int
    open_alerts: int
    untold: int
    captures: int
    left_out: int
    not_finite: int
    broken: Mapping[str, str]


class _Series:
    """points: kept where a forecast is wanted."""

    def __init__(self, metric: str) -> None:
        self.running = Running()
        self.points = Thinned() if metric in FORECAST else None

    def update(self, time_s: float, value: float) -> None:
        self.running.update(time_s, value)
        if self.points is not None:
            self.points.update(time_s, value)

    def summary(self) -> MetricSummary | None:
        """None: there were no values."""
        running = self.running
        if running.mean is None:
            return None
        what_comes, ahead_s = self._forecast()
        low, peak = running.minimum or 0.0, running.maximum or 0.0  # there are, with a mean
        # Percentiles are exact to 1 %, and not to be beyond the extremes.
        p50, p95, p99 = (
            min(peak, max(low, one or 0.0)) for one in (running.p50, running.p95, running.p99)
        )
        return MetricSummary(
            count=running.count,
            average=running.mean,
            low=low,
            peak=peak,
            p50=p50,
            p95=p95,
            p99=p99,
            last=running.last or 0.0,
            trend=running.trend,
            forecast=what_comes,
            ahead_s=ahead_s,
        )

    def _forecast(self) -> tuple[ValueForecast | None, float]:
        """No further than it was watched for, and an hour at most."""
        points = self.points.points if self.points is not None else []
        if len(points) < FEWEST:
            return None, 0.0
        xs = [point.x for point in points]
        ahead_s = min(AHEAD_S, xs[-1] - xs[0])
        return forecast(xs, [point.middle for point in points], xs[-1] + ahead_s), ahead_s


class SeriesTable:
    def __init__(self) -> None:
        self._series: dict[SeriesKey, _Series] = {}
        self._own = 0
        self.left_out = 0

    def update(self, key: SeriesKey, time_s: float, value: float) -> bool:
        """False: there are too many series for this one; it is only counted."""
        series = self._series.get(key)
        if series is None:
            if not self._has_room(key):
                self.left_out += 1
                return False
            series = self._series[key] = _Series(key.metric)
        series.update(time_s, value)
        return True

    def summaries(self) -> dict[SeriesKey, MetricSummary]:
        """Some ms for each series."""
        found = {key: series.summary() for key, series in self._series.items()}
        return {key: summary for key, summary in found.items() if summary is not None}

    def _has_room(self, key: SeriesKey) -> bool:
        if len(key.metric) > LONGEST_NAME or len(key.label) > LONGEST_NAME:
            return False
        if key.metric in METRICS:
            return len(self._series) - self._own < MOST_KNOWN
        if self._own == MOST_OWN:
            return False
        self._own += 1
        return True
