from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from stepscope.model.alert import Alert
from stepscope.notify.courier import LONGEST_PAUSE_S, Courier
from stepscope.notify.memory_outbox import MemoryOutbox
from stepscope.notify.sink import SinkError, notice_key
from tests.unit.notify.alerts_by_hand import firing, resolved


class Sink:
    """Takes what `errors` says: None takes it; the last one goes on."""

    name = "sink"

    def __init__(self, *errors: Exception | None) -> None:
        self.errors: list[Exception | None] = list(errors) or [None]
        self.took: list[str] = []
        self.asked = 0

    def send(self, alert: Alert) -> None:
        self.asked += 1
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        if error is not None:
            raise error
        self.took.append(notice_key(alert))

    def close(self) -> None:
        raise ValueError("s3cret")


def never() -> bool:
    return False


def courier(
    sink: Sink, *alerts: Alert, chance: Callable[[], float] = lambda: 1.0
) -> tuple[Courier, MemoryOutbox]:
    outbox = MemoryOutbox()
    for alert in alerts:
        outbox.add(alert, ["sink"])
    return Courier(sink, outbox, lambda: 5.0, chance), outbox


def test_all_that_is_pending_is_delivered_in_order() -> None:
    sink = Sink()
    alerts = [firing(str(number)) for number in range(50)]
    one, outbox = courier(sink, *alerts, resolved("0"))
    assert one.work(never) is None
    assert sink.took == [f"{number}:firing" for number in range(50)] + ["0:resolved"]
    assert outbox.counts()[:2] == (0, 51)
    assert one.work(never) is None
    assert sink.asked == 51


def test_pauses_double_up_to_a_limit_and_begin_anew_after_a_success() -> None:
    failing = SinkError("no")
    sink = Sink(*[failing] * 12, None, failing)
    one, _ = courier(sink, firing("a"), firing("b"))
    pauses = [one.work(never) for _ in range(12)]
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert pauses[9:] == [LONGEST_PAUSE_S] * 3
    assert one.work(never) == 1  # "a" was taken, "b" was not
    assert sink.took == ["a:firing"]


def test_half_of_a_pause_is_chance() -> None:
    one, _ = courier(Sink(SinkError("no")), firing(), chance=lambda: 0.0)
    pauses = [one.work(never) or 0.0 for _ in range(20)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert all(first <= second <= LONGEST_PAUSE_S for first, second in pairwise(pauses))


def test_what_the_other_side_asks_for_is_respected_within_reason() -> None:
    one, _ = courier(Sink(SinkError("no", retry_after_s=17.0)), firing())
    assert one.work(never) == 17.0
    other, _ = courier(Sink(SinkError("no", retry_after_s=1e9)), firing())
    assert other.work(never) == LONGEST_PAUSE_S


def test_what_will_never_be_taken_does_not_hold_up_the_rest() -> None:
    sink = Sink(SinkError("404", permanent=True), None)
    one, outbox = courier(sink, firing("a"), firing("b"))
    assert one.work(never) is None
    assert sink.took == ["b:firing"]
    assert outbox.counts()[:3] == (0, 1, 1)


def test_a_fault_in_a_sink_loses_no_alert_and_shows_no_secret() -> None:
    sink = Sink(KeyError("s3cret"), None)
    one, outbox = courier(sink, firing())
    assert one.work(never) == 1
    assert one.trouble == "It failed with KeyError."
    assert outbox.pending("sink", 1)[0].attempts == 1
    assert one.work(never) is None
    assert one.trouble == ""
    one.close()
    assert one.trouble == "It failed with ValueError."


def test_it_stops_between_two_alerts_when_asked() -> None:
    sink = Sink()
    one, _ = courier(sink, firing("a"), firing("b"))
    assert one.work(lambda: bool(sink.took)) == 0.0
    assert sink.took == ["a:firing"]
