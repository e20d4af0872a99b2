"""Series of metrics as exports keep them: the newest value of each, and no more than so many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from stepscope.model.alert import Alert
from stepscope.model.metric_table import Metric, metric_named
from stepscope.model.watching import Reading
from stepscope.notify.options import Options
from stepscope.notify.secrets import resolve, short_hash
from stepscope.notify.sink import SinkContext

__all__ = [
    "MOST_SERIES",
    "AlertMarks",
    "Newest",
    "Steps",
    "clean",
    "families",
    "labelled",
    "labels_of",
    "path_of",
]

MOST_SERIES: Final = 2000  # of a run: a thousand GPUs, or a program that names a metric by its step
_LONGEST_VALUE: Final = 200
_Key: TypeAlias = tuple[str, str, int]  # metric, label, rank


class Newest:
    """The newest reading of each series. Series beyond the first `most` are left out and counted,
    by the readings of them."""

    def __init__(self, most: int = MOST_SERIES) -> None:
        self._most = most
        self._readings: dict[_Key, Reading] = {}
        self._dropped = 0

    def update(self, readings: Iterable[Reading]) -> list[Reading]:
        """Those that were kept."""
        kept = []
        for reading in readings:
            key = (reading.metric, reading.label, reading.rank)
            if key in self._readings or len(self._readings) < self._most:
                self._readings[key] = reading
                kept.append(reading)
            else:
                self._dropped += 1
        return kept

    def all(self) -> list[Reading]:
        found = list(self._readings.values())
        if self._dropped:
            found.append(Reading(0, "readings_dropped_total", float(self._dropped)))
        return found


class Steps:
    """At which step of its rank a reading was taken, where it does not say so itself."""

    def __init__(self) -> None:
        self._by_rank: dict[int, int] = {}

    @property
    def newest(self) -> int:
        """The furthest of all ranks."""
        return max(self._by_rank.values(), default=0)

    def update(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            made = reading.step or 0
            if reading.metric == "steps_total" and math.isfinite(reading.value):
                made = int(reading.value)
            self._by_rank[reading.rank] = max(made, self._by_rank.get(reading.rank, 0))

    def of(self, reading: Reading) -> int:
        return self._by_rank.get(reading.rank, 0) if reading.step is None else reading.step


class AlertMarks:
    """Alerts as metrics: `alert`, which is 1 while one goes on, and `alerts_total`."""

    def __init__(self) -> None:
        self._going: dict[str, tuple[str, tuple[int, ...]]] = {}  # id → label, ranks
        self._raised: dict[tuple[str, int], float] = {}

    def told(self, alert: Alert) -> list[Reading]:
        """The readings that a notice changes."""
        found = []
        label, ranks = f"{alert.rule}/{alert.finding.kind}", alert.ranks or (0,)
        if not alert.is_firing:
            label, ranks = self._going.pop(alert.id, (label, ranks))
        elif alert.id not in self._going:
            series = alert.rule, ranks[0]
            self._raised[series] = raised = self._raised.get(series, 0.0) + 1.0
            found.append(Reading(0, "alerts_total", raised, alert.rule, ranks[0]))
            self._going[alert.id] = label, ranks
        going = {(one, rank) for one, of in self._going.values() for rank in of}
        marks = (Reading(0, "alert", float((label, rank) in going), label, rank) for rank in ranks)
        return [*found, *marks]


def families(
    readings: Iterable[Reading], name_of: Callable[[Metric], str]
) -> dict[str, list[Reading]]:
    """The readings of each metric by its name elsewhere. Two of the program's metrics that would
    have the same name there stay two."""
    found: dict[str, list[Reading]] = {}
    for reading in readings:
        name = name_of(metric_named(reading.metric))
        if name in found and found[name][0].metric != reading.metric:
            name = f"{name}_{short_hash(reading.metric)}"
        found.setdefault(name, []).append(reading)
    return found


def labelled(options: Options, context: SinkContext) -> SinkContext:
    """With the `labels` of a sink; $NAME in them is a variable of the environment."""
    labels = options.table("labels")
    own = {name: resolve(labels[name], options.where(f"labels.{name}")) for name in labels}
    return replace(context, labels={**context.labels, **own})


def labels_of(reading: Reading, context: SinkContext) -> Mapping[str, str]:
    """The labels of a series: whose it is, and its own. The user's come first: they cannot replace
    those of stepscope."""
    own = metric_named(reading.metric).labels_of(reading.label)
    labels = {
        **context.labels,
        **own,
        "run": context.run,
        "rank": str(reading.rank),
        "host": context.host,
    }
    return {name: clean(value) for name, value in labels.items()}


def path_of(reading: Reading) -> str:
    """A series as trackers of experiments name them: "stepscope/phase_ratio/backward"."""
    rank = (f"rank-{reading.rank}",) if reading.rank else ()
    words = ("stepscope", reading.metric, reading.label, *rank)
    return clean("/".join(word for word in words if word))


def clean(value: str, longest: int = _LONGEST_VALUE) -> str:
    """Valid UTF-8 (names of files need not be), of a size that nobody minds."""
    return value[:longest].encode("utf-8", "replace").decode("utf-8")
