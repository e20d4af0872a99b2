"""A loss that is no number any more, or runs away."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Final

from stepscope.model.watching import Condition, Reading
from stepscope.monitor.judge import graded
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Loss
from stepscope.stats.divergence import DivergenceDetector

__all__ = ["LossRule"]

_LOSS: Final = "loss"
_MOST: Final = 1024  # series: names come from the program
_KEPT: Final = 128  # readings, to tell when it began
_LOST: Final = ((1.0, 0.8), (10.0, 1.0))  # values in a row that are no number
_AWAY: Final = ((0.5, 0.6), (0.9, 0.9))  # the detector's confidence


class _Series:
    """bad: readings in a row that were no number; first_bad: the first of them."""

    def __init__(self) -> None:
        self.detector = DivergenceDetector()
        self.readings: deque[Reading] = deque(maxlen=_KEPT)
        self.count = 0
        self.bad = 0
        self.first_bad: Reading | None = None

    def update(self, reading: Reading) -> None:
        was_finite = self.detector.is_finite
        self.detector.update(reading.value)
        self.readings.append(reading)
        self.count += 1
        if math.isfinite(reading.value):
            self.bad = 0
            return
        self.bad += 1
        if was_finite:
            self.first_bad = reading

    @property
    def began(self) -> Reading:
        """The reading with which it began to run away."""
        ago = self.count - self.detector.began
        return self.readings[max(0, len(self.readings) - ago)]


class LossRule(Rule):
    """Severity of what is no number: 0.8 for the first, 1 for ten in a row; of a loss that runs
    away: 0.6 to 0.9, from how far. Confidence: 1, or the detector's.

    Of every metric with "loss" in its name it is told when that is no number; running away only of
    the one in the table: others may be losses of what the model is not trained on.
    """

    def __init__(self, settings: Loss) -> None:
        self._series: dict[tuple[int, str], _Series] = {}

    def reading(self, reading: Reading) -> None:
        if _LOSS not in reading.metric:
            return
        key = reading.rank, reading.metric
        if key not in self._series:
            if len(self._series) >= _MOST:
                return
            self._series[key] = _Series()
        self._series[key].update(reading)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for (_, metric), series in self._series.items():
            if not series.detector.is_finite and series.first_bad is not None:
                yield _not_finite(series, series.first_bad)
            elif series.detector.is_diverging and metric == _LOSS and series.readings:
                yield _diverging(series, series.began)


def _not_finite(series: _Series, first: Reading) -> Condition:
    many = f"; {series.bad} in a row" if series.bad > 1 else ""
    at = f" since step {first.step}" if first.step is not None else ""
    return Condition(
        rule="loss",
        key=f"not finite {first.metric} {first.rank}",
        kind="loss-not-finite",
        title=f"The {first.metric} is no number any more",
        severity=graded(float(series.bad), _LOST),
        confidence=1.0,
        began_ns=first.time_ns,
        share=0.0,
        evidence=(f"It is {first.value}{at}{many}.",),
        rank=first.rank,
        step=first.step,
        metric=first.metric,
        group="loss",
    )


def _diverging(series: _Series, began: Reading) -> Condition:
    detector = series.detector
    level, best = detector.level or 0.0, detector.best or 0.0
    return Condition(
        rule="loss",
        key=f"diverging {began.metric} {began.rank}",
        kind="loss-diverging",
        title=f"The loss runs away: {level:.4g}, and was {best:.4g} at its best",
        severity=graded(detector.confidence, _AWAY),
        confidence=detector.confidence,
        began_ns=began.time_ns,
        evidence=("It stays far above its lowest level, by many times its noise.",),
        measures={"level": level, "best": best},
        rank=began.rank,
        step=began.step,
        metric=began.metric,
        value=level,
        limit=best,
        group="loss",
    )
