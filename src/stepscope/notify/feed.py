"""The newest readings, for one sink of metrics."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.sink import HearsAlerts, MetricsSink, SinkError

__all__ = ["Feed"]

_MOST_ALERTS: Final = 100
_MOST_SERIES: Final = 10_000


class Feed:
    """`put` is quick and never waits for the sink; `work` is for a Worker.

    dropped: readings that a newer one of their series replaced while the sink was too slow to take
    them, and those beyond what is kept. trouble: why the last update was not taken; "": it was.
    """

    def __init__(self, sink: MetricsSink, now_unix: Callable[[], float]) -> None:
        self.dropped = 0
        self.trouble = ""
        self._sink, self._now_unix = sink, now_unix
        self._lock = threading.Lock()
        self._new: dict[tuple[str, str, int], Reading] = {}
        self._alerts: deque[Alert] = deque(maxlen=_MOST_ALERTS)
        self._is_late = False  # the sink is at work, or the last update failed

    @property
    def sink(self) -> MetricsSink:
        return self._sink

    def put(self, readings: Sequence[Reading]) -> None:
        with self._lock:
            for reading in readings:
                key = (reading.metric, reading.label, reading.rank)
                if key in self._new:
                    self.dropped += self._is_late
                elif len(self._new) >= _MOST_SERIES:
                    self.dropped += 1
                    continue
                self._new[key] = reading

    def put_alert(self, alert: Alert) -> None:
        if isinstance(self._sink, HearsAlerts):
            with self._lock:
                self._alerts.append(alert)

    def work(self, stop: Callable[[], bool]) -> float | None:
        """None: nothing was new. A number: seconds until the next update."""
        with self._lock:
            readings, alerts = self._new, list(self._alerts)
            if not readings and not alerts:
                return None
            self._new = {}
            self._alerts.clear()
            self._is_late = True
        try:
            self._tell(list(readings.values()), alerts)
            self.trouble = ""
        except SinkError as error:
            self._put_back(readings, str(error))
        except Exception as error:  # noqa: BLE001 - a fault in a sink must not end the others
            self._put_back(readings, f"It failed with {type(error).__name__}.")
        with self._lock:
            self._is_late = bool(self.trouble)
        return self._sink.interval_s

    def close(self) -> None:
        try:
            self._sink.close()
        except Exception as error:  # noqa: BLE001 - nobody is left who could act on it
            self.trouble = f"It failed with {type(error).__name__}."

    def _tell(self, readings: list[Reading], alerts: list[Alert]) -> None:
        if isinstance(self._sink, HearsAlerts):
            for alert in alerts:
                self._sink.alert(alert)
        if readings:
            self._sink.update(readings, self._now_unix())

    def _put_back(self, readings: dict[tuple[str, str, int], Reading], trouble: str) -> None:
        """What has no newer reading by now is told next time."""
        self.trouble = trouble
        with self._lock:
            self.dropped += len(self._new.keys() & readings.keys())
            self._new = readings | self._new
