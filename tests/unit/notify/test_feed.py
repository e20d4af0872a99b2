from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.feed import Feed
from stepscope.notify.sink import SinkError
from tests.unit.notify.alerts_by_hand import firing


class Gauge:
    name, interval_s = "gauge", 15.0

    def __init__(self) -> None:
        self.told: list[tuple[list[Reading], float]] = []
        self.alerts: list[str] = []
        self.error: Exception | None = None
        self.feed: Feed | None = None  # which gets a reading while we are at work

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        if self.feed is not None:
            self.feed.put([reading(10), reading(11)])
        if self.error is not None:
            raise self.error
        self.told.append((list(readings), now_unix))

    def alert(self, alert: Alert) -> None:
        self.alerts.append(alert.id)

    def close(self) -> None:
        raise OSError("s3cret")


def reading(value: float, metric: str = "loss", label: str = "", rank: int = 0) -> Reading:
    return Reading(int(value), metric, value, label, rank)


def never() -> bool:
    return False


def test_the_newest_of_each_series_is_told_at_the_sinks_interval() -> None:
    gauge = Gauge()
    feed = Feed(gauge, lambda: 7.0)
    feed.put([reading(1), reading(2), reading(3, rank=1), reading(4, label="x")])
    assert feed.work(never) == 15.0
    assert gauge.told == [([reading(2), reading(3, rank=1), reading(4, label="x")], 7.0)]
    assert feed.work(never) is None  # nothing is new
    assert feed.dropped == 0  # that is what an interval is for


def test_what_a_slow_sink_misses_is_counted() -> None:
    gauge = Gauge()
    feed = gauge.feed = Feed(gauge, lambda: 7.0)
    feed.put([reading(1)])
    feed.work(never)
    assert feed.dropped == 1  # 10 was replaced by 11 while the sink was at work
    gauge.feed = None
    feed.work(never)
    assert [told for told, _ in gauge.told] == [[reading(1)], [reading(11)]]


def test_what_a_sink_did_not_take_is_told_again_unless_there_is_newer() -> None:
    gauge = Gauge()
    feed = Feed(gauge, lambda: 7.0)
    gauge.error = SinkError("the collector is away")
    feed.put([reading(1), reading(2, "memory_bytes")])
    assert feed.work(never) == 15.0
    assert feed.trouble == "the collector is away"
    feed.put([reading(3)])
    gauge.error = None
    feed.work(never)
    assert gauge.told[-1][0] == [reading(3), reading(2, "memory_bytes")]
    assert (feed.trouble, feed.dropped) == ("", 1)


def test_a_fault_in_a_sink_ends_nothing_and_shows_no_secret() -> None:
    gauge = Gauge()
    gauge.error = KeyError("s3cret")
    feed = Feed(gauge, lambda: 7.0)
    feed.put([reading(1)])
    assert feed.work(never) == 15.0
    assert feed.trouble == "It failed with KeyError."
    feed.close()
    assert feed.trouble == "It failed with OSError."


def test_alerts_are_marked_even_without_a_reading() -> None:
    gauge = Gauge()
    feed = Feed(gauge, lambda: 7.0)
    feed.put_alert(firing("a"))
    assert feed.work(never) == 15.0
    assert (gauge.alerts, gauge.told) == (["a"], [])
