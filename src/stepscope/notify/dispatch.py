"""Tells alerts and readings to all sinks, and waits for none of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.courier import Courier
from stepscope.notify.feed import Feed
from stepscope.notify.sink import AlertSink, MetricsSink, Outbox, OutboxCounts, Selective
from stepscope.notify.worker import Worker

__all__ = ["Dispatcher"]


class Dispatcher:
    """One daemon thread for each sink that has something to do. Nothing here raises or waits, but
    `close`, which waits as long as it is told to.

    outbox: where alerts are until their sinks took them. now_unix: the wall clock. In a forked
    child it does nothing: what there was is the parent's to tell.
    """

    def __init__(
        self,
        outbox: Outbox,
        sinks: Sequence[AlertSink],
        metrics_sinks: Sequence[MetricsSink] = (),
        now_unix: Callable[[], float] = time.time,
    ) -> None:
        self._outbox = outbox
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._told: dict[str, tuple[str, ...]] = {}  # of open incidents: who heard of them
        self._is_closed = False
        couriers = [Courier(sink, outbox, now_unix) for sink in sinks]
        feeds = [Feed(sink, now_unix) for sink in metrics_sinks]
        self._couriers = [(one, _worker(one)) for one in couriers]
        self._feeds = [(one, _worker(one)) for one in feeds]

    def start(self) -> None:
        """Delivers what earlier runs left for these sinks."""
        if self._works():
            for _, worker in self._couriers:
                worker.wake()

    def tell(self, alert: Alert) -> None:
        """It is in the outbox when this returns."""
        if not self._works():
            return
        names = self._audience(alert)
        self._outbox.add(alert, names)
        for courier, worker in self._couriers:
            if courier.sink.name in names:
                worker.wake()
        for feed, worker in self._feeds:
            feed.put_alert(alert)
            worker.wake()

    def update(self, readings: Sequence[Reading]) -> None:
        """The newest of each series are told at the interval of each sink."""
        if not self._works():
            return
        for feed, worker in self._feeds:
            feed.put(readings)
            worker.wake()

    def counts(self) -> OutboxCounts:
        return self._outbox.counts()

    @property
    def dropped(self) -> int:
        """Readings that sinks were too slow for."""
        return sum(feed.dropped for feed, _ in self._feeds)

    @property
    def troubles(self) -> dict[str, str]:
        """The sinks that do not take what they are told, and why, without secrets."""
        couriers = {one.sink.name: one.trouble for one, _ in self._couriers if one.trouble}
        return couriers | {one.sink.name: one.trouble for one, _ in self._feeds if one.trouble}

    def close(self, patience_s: float = 5.0) -> bool:
        """Tries once more for what is left, closes the sinks, and returns within that time whether
        all of it was delivered. What was not stays pending in the outbox."""
        if not self._works():
            return True
        self._is_closed = True
        workers = [worker for _, worker in (*self._couriers, *self._feeds)]
        for worker in workers:
            worker.finish()
        until = time.monotonic() + patience_s
        are_over = [worker.join(until - time.monotonic()) for worker in workers]
        if all(are_over):  # or else one of them may be about to deliver: nobody else should
            self._outbox.close()
        return all(are_over) and not self._outbox.counts().pending

    def _works(self) -> bool:
        return not self._is_closed and self._pid == os.getpid()

    def _audience(self, alert: Alert) -> tuple[str, ...]:
        """Who heard of the beginning hears of the end, and nobody else."""
        with self._lock:
            known = self._told.get(alert.id)
            if known is None:
                sinks = [courier.sink for courier, _ in self._couriers]
                known = tuple(sink.name for sink in sinks if _wants(sink, alert))
            if alert.is_firing:
                self._told[alert.id] = known
            else:
                self._told.pop(alert.id, None)
            return known


def _wants(sink: AlertSink, alert: Alert) -> bool:
    return not isinstance(sink, Selective) or sink.wants(alert)


def _worker(one: Courier | Feed) -> Worker:
    return Worker(one.work, one.close, f"stepscope {one.sink.name}")
