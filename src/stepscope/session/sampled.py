"""What is sampled of this process and its machine during a session: over time, and against limits
which the monitor's rule judges."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from stepscope.analyze.gauges import Gauges
from stepscope.analyze.readings import SampleReadings
from stepscope.model.event import Batch
from stepscope.model.process import ProcessInfo
from stepscope.model.watching import Crossing
from stepscope.monitor.rule_settings import Threshold
from stepscope.monitor.rules.thresholds import ThresholdRule

__all__ = ["Sampled"]

_NO_LIMITS: Final[Mapping[str, float]] = MappingProxyType({})


class Sampled:
    """A follower (session/inside.py) of what is sampled from `start_ns` on. Of processes this one
    alone counts, without its workers.

    limits: metric → the value from which on it is passed.
    """

    def __init__(self, start_ns: int, limits: Mapping[str, float] = _NO_LIMITS) -> None:
        self._start_ns = start_ns
        self._limits = limits
        self.after_fork()

    def after_fork(self) -> None:
        """A forked child has nothing of its parent's."""
        self._pid = os.getpid()
        self._readings = SampleReadings({self._pid: 0}.get)
        self._rules = {
            metric: ThresholdRule(Threshold(metric=metric, above=limit), back_share=0.0)
            for metric, limit in self._limits.items()
        }
        self.gauges = Gauges(self._start_ns)

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        if process.pid != self._pid:
            return
        for batch in batches:
            for reading in self._readings.update(batch):
                if reading.time_ns < self._start_ns:
                    continue
                self.gauges.reading(reading)
                rule = self._rules.get(reading.metric)
                if rule is not None:
                    rule.reading(reading)

    def crossing(self, metric: str) -> Crossing:
        """How a limit was passed so far; of several series (GPUs), that which went farthest."""
        return self._rules[metric].crossing()
