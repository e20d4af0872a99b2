"""What is known of a run, as Prometheus writes it down."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stepscope.model.alert import Alert
from stepscope.model.metric_table import MetricType, metric_named
from stepscope.model.watching import Reading
from stepscope.notify.scrape_server import Page
from stepscope.notify.series import AlertMarks, Newest, families, labels_of
from stepscope.notify.sink import SinkContext

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

__all__ = ["Exposition"]


class Exposition:
    """The newest of every series as Prometheus writes them down. Works from several threads."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._newest, self._marks = Newest(), AlertMarks()
        self._lock = threading.Lock()
        self._pages: dict[str, Page] = {}  # of what is known now, by their format

    def update(self, readings: Iterable[Reading]) -> None:
        with self._lock:
            self._newest.update(readings)
            self._pages.clear()

    def alert(self, alert: Alert) -> None:
        with self._lock:
            self._newest.update(self._marks.told(alert))
            self._pages.clear()

    def page(self, accept: str = "") -> Page:
        """In the format that a scraper asks for. It is written once for all that ask."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        with self._lock:
            if content_type not in self._pages:
                self._pages[content_type] = Page(encode(self), content_type)
            return self._pages[content_type]

    def collect(self) -> Iterator[Family]:
        """For the client's encoders, which ask this of a registry."""
        found = families(self._newest.all(), lambda metric: metric.prometheus)
        for name, readings in sorted(found.items()):
            yield self._family(name, readings)

    def _family(self, name: str, readings: Sequence[Reading]) -> Family:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        metric = metric_named(readings[0].metric)
        family: Any
        if metric.type is MetricType.COUNTER:
            family = CounterMetricFamily(name, metric.about)
            name = f"{family.name}_total"
        else:
            family = GaugeMetricFamily(name, metric.about)
        for reading in readings:
            family.add_sample(name, dict(labels_of(reading, self._context)), reading.value)
        return family  # type: ignore[no-any-return]
