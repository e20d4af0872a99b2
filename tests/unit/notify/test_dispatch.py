from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from stepscope.model.alert import Alert
from stepscope.model.delivery import Delivery, DeliveryState
from stepscope.model.watching import Reading
from stepscope.notify import courier
from stepscope.notify.build import Chosen
from stepscope.notify.dispatch import Dispatcher
from stepscope.notify.memory_outbox import MemoryOutbox
from stepscope.notify.sink import Outbox, SinkError, notice_key
from stepscope.notify.webhook import Webhook, WebhookSettings
from stepscope.store.alerts import AlertStore, alerts_of
from tests.unit.notify.alerts_by_hand import firing, resolved
from tests.unit.notify.servers import HANG, Hook, free_port, serving

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(courier, "LONGEST_PAUSE_S", 0.05)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


class Sink:
    """Takes an alert while its gate is open, and fails while `error` is set."""

    def __init__(self, name: str = "sink") -> None:
        self.name = name
        self.took: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_closed = False
        self.asked = 0
        self.error: SinkError | None = None

    def send(self, alert: Alert) -> None:
        self.asked += 1
        assert self.gate.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.took.append(notice_key(alert))

    def close(self) -> None:
        self.is_closed = True


class Gauge:
    name, interval_s = "gauge", 0.01

    def __init__(self) -> None:
        self.told: list[float] = []
        self.alerts: list[str] = []
        self.is_closed = False

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        self.told += [one.value for one in readings]

    def alert(self, alert: Alert) -> None:
        self.alerts.append(alert.id)

    def close(self) -> None:
        self.is_closed = True


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("stepscope ")]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "runs" / "r").mkdir(parents=True)
    return tmp_path / "runs" / "r"


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


def webhook(port: int, timeout_s: float = 30.0) -> Webhook:
    return Webhook(WebhookSettings(f"http://127.0.0.1:{port}", "hook", timeout_s=timeout_s))


def test_each_sink_hears_of_each_alert_once_in_order_and_no_thread_stays() -> None:
    one, other = Sink("one"), Sink("other")
    dispatcher = Dispatcher(MemoryOutbox(), [one, other])
    dispatcher.start()
    told = [firing(str(number)) for number in range(20)] + [resolved("3")]
    for alert in told:
        dispatcher.tell(alert)
    wait_for(lambda: len(one.took) == len(other.took) == 21)
    assert one.took == other.took == [notice_key(alert) for alert in told]
    wait_for(lambda: not threads())  # idle sinks have none
    dispatcher.tell(firing("late"))
    assert dispatcher.close(PATIENCE_S)
    assert one.took[-1] == "late:firing"
    assert one.is_closed
    assert not threads()
    dispatcher.tell(firing("too late"))
    assert dispatcher.counts().pending == 0


def test_a_sink_that_fails_is_tried_again_until_it_takes_it() -> None:
    sink, outbox = Sink(), MemoryOutbox()
    sink.error = SinkError("away")
    dispatcher = Dispatcher(outbox, [sink])
    dispatcher.tell(firing())
    wait_for(lambda: outbox.pending("sink", 1)[0].attempts >= 3)
    assert dispatcher.troubles == {"sink": "away"}
    sink.error = None
    wait_for(lambda: sink.took == ["a:firing"])
    assert dispatcher.close(PATIENCE_S)
    assert sink.took == ["a:firing"]


def test_a_sink_that_hangs_holds_up_neither_the_others_nor_the_end() -> None:
    slow, quick, outbox = Sink("slow"), Sink("quick"), MemoryOutbox()
    slow.gate.clear()
    dispatcher = Dispatcher(outbox, [slow, quick])
    dispatcher.tell(firing("a"))
    dispatcher.tell(firing("b"))
    wait_for(lambda: len(quick.took) == 2)
    assert not dispatcher.close(0.05)
    assert [one.alert.id for one in outbox.pending("slow", 9)] == ["a", "b"]
    slow.gate.set()
    wait_for(lambda: slow.took == ["a:firing", "b:firing"])


def test_the_end_is_told_to_those_who_heard_of_the_beginning() -> None:
    loud, all_of_it = Sink("loud"), Sink("all")
    dispatcher = Dispatcher(MemoryOutbox(), [Chosen(loud, min_severity=0.95), all_of_it])
    dispatcher.tell(firing())  # severity 0.9
    louder = resolved()
    object.__setattr__(louder.finding, "severity", 0.99)
    try:
        dispatcher.tell(louder)
    finally:
        object.__setattr__(louder.finding, "severity", 0.9)
    assert dispatcher.close(PATIENCE_S)
    assert loud.took == []
    assert all_of_it.took == ["a:firing", "a:resolved"]


def test_metrics_and_alerts_reach_the_sinks_of_metrics() -> None:
    gauge = Gauge()
    dispatcher = Dispatcher(MemoryOutbox(), [], [gauge])
    for value in range(5):
        dispatcher.update([Reading(value, "loss", float(value))])
    dispatcher.tell(firing())
    assert dispatcher.close(PATIENCE_S)
    assert gauge.told[-1] == 4.0  # the newest comes to its end
    assert (gauge.alerts, gauge.is_closed) == (["a"], True)


def test_a_server_that_comes_back_gets_everything_once(run: Path) -> None:
    port = free_port()
    dispatcher = Dispatcher(AlertStore(run.parent, run), [webhook(port)])
    dispatcher.tell(firing("a"))
    dispatcher.tell(firing("b"))
    dispatcher.tell(resolved("a"))
    wait_for(lambda: "refused" in dispatcher.troubles.get("hook", ""))
    with serving(port) as hook:
        wait_for(lambda: len(hook.requests) == 3)
        assert dispatcher.close(PATIENCE_S)
        assert hook.keys == ["a:firing", "b:firing", "a:resolved"]


def test_a_server_that_answers_500_gets_each_once_when_it_is_well(run: Path, hook: Hook) -> None:
    hook.answers = [500, 503, (429, {"Retry-After": "0"}), 200]
    dispatcher = Dispatcher(AlertStore(run.parent, run), [webhook(hook.port)])
    dispatcher.tell(firing("a"))
    dispatcher.tell(firing("b"))
    wait_for(lambda: len(hook.requests) == 5)
    assert dispatcher.close(PATIENCE_S)
    assert hook.keys == ["a:firing"] * 4 + ["b:firing"]


def test_what_a_server_that_hangs_did_not_take_the_next_run_delivers(run: Path, hook: Hook) -> None:
    hook.answers = [HANG]
    first = Dispatcher(AlertStore(run.parent, run), [webhook(hook.port, timeout_s=0.1)])
    first.tell(firing("a"))
    wait_for(lambda: "did not answer" in first.troubles.get("hook", ""))
    assert not first.close(PATIENCE_S)
    (record,) = alerts_of(run)
    assert record.deliveries[0].state is DeliveryState.PENDING
    hook.answers, hook.requests = [200], []
    (run.parent / "s").mkdir()
    second = Dispatcher(AlertStore(run.parent, run.parent / "s"), [webhook(hook.port)])
    second.start()
    wait_for(lambda: bool(hook.requests))
    assert second.close(PATIENCE_S)
    assert hook.keys == ["a:firing"]
    (record,) = alerts_of(run)
    assert record.deliveries[0].state is DeliveryState.DELIVERED


_TELLING = """
import sys
from pathlib import Path
from stepscope.notify.dispatch import Dispatcher
from stepscope.notify.webhook import Webhook, WebhookSettings
from stepscope.store.alerts import AlertStore
from tests.unit.notify.alerts_by_hand import firing
run, port = Path(sys.argv[1]), int(sys.argv[2])
run.mkdir()
hook = Webhook(WebhookSettings(f"http://127.0.0.1:{port}", "hook", timeout_s=30.0))
dispatcher = Dispatcher(AlertStore(run.parent, run), [hook])
dispatcher.start()
for number in range(10):
    dispatcher.tell(firing(f"{run.name}{number}"))
sys.exit(not dispatcher.close(60.0))
"""


def test_processes_that_share_a_sink_deliver_what_is_left_once(run: Path, hook: Hook) -> None:
    left = AlertStore(run.parent, run)
    for number in range(10):
        left.add(firing(f"r{number}"), ["hook"])
    left.close()
    root = str(Path(__file__).parents[3])
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", _TELLING, str(run.parent / name), str(hook.port)],
            cwd=root,
            env=os.environ | {"PYTHONPATH": root},
        )
        for name in "st"
    ]
    assert [program.wait(PATIENCE_S) for program in programs] == [0, 0]
    expected = [f"{name}{number}:firing" for name in "rst" for number in range(10)]
    assert sorted(hook.keys) == expected
    for name in "rst":  # and in order
        own = [key for key in hook.keys if key.startswith(name)]
        assert own == [f"{name}{number}:firing" for number in range(10)]


def test_a_forked_child_tells_nobody_and_the_parent_goes_on() -> None:
    sink = Sink()
    sink.error = SinkError("away")
    dispatcher = Dispatcher(MemoryOutbox(), [sink], [Gauge()])
    dispatcher.tell(firing("a"))
    wait_for(lambda: sink.asked > 0)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sink.error = None
            dispatcher.start()
            dispatcher.tell(firing("child's"))
            dispatcher.update([Reading(1, "loss", 1.0)])
            dispatcher.close(0.5)
            os.write(writer, f"{threads()} {sink.took}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    child = os.read(reader, 1000).decode()
    os.waitpid(pid, 0)
    os.close(reader)
    assert child == "[] []"
    sink.error = None
    wait_for(lambda: sink.took == ["a:firing"])
    assert dispatcher.close(PATIENCE_S)


def test_a_fork_does_not_wait_for_a_sink_that_hangs() -> None:
    sink = Sink()
    sink.gate.clear()
    dispatcher = Dispatcher(MemoryOutbox(), [sink])
    dispatcher.tell(firing("a"))
    wait_for(lambda: sink.asked == 1)
    pid = os.fork()  # it would not come back
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    sink.gate.set()
    dispatcher.tell(firing("b"))
    assert dispatcher.close(PATIENCE_S)
    assert sink.took == ["a:firing", "b:firing"]


def test_telling_waits_for_nobody_while_a_delivery_is_on_its_way(run: Path) -> None:
    """Told in the thread of the caller: with a sink that hangs this would never return."""
    sink = Sink()
    sink.gate.clear()
    store = AlertStore(run.parent, run)
    dispatcher = Dispatcher(store, [sink])
    for number in range(5):
        dispatcher.tell(firing(str(number)))
    assert sink.took == []
    assert len(alerts_of(run)) == 5
    sink.gate.set()
    assert dispatcher.close(PATIENCE_S)
    assert len(sink.took) == 5


@pytest.mark.parametrize(
    "make", [lambda run: MemoryOutbox(), lambda run: AlertStore(run.parent, run)]
)
def test_every_outbox_keeps_the_same_promises(run: Path, make: Callable[[Path], Outbox]) -> None:
    outbox = make(run)
    outbox.add(firing("a"), ["x", "y"])
    outbox.add(firing("b"), ["x"])
    first, second = outbox.pending("x", 10)
    assert [first.alert, second.alert] == [firing("a"), firing("b")]
    assert outbox.pending("x", 1) == [first]
    outbox.failed(first.id, "no", 1.0)
    assert outbox.pending("x", 1) == [Delivery(first.id, firing("a"), 1)]
    outbox.delivered(first.id)
    outbox.delivered(first.id)
    outbox.failed(first.id, "late", 1.0)
    outbox.failed(second.id, "404", 1.0, permanent=True)
    assert outbox.pending("x", 10) == []
    outbox.add(firing("a", capture="c"), ["x", "y"])
    assert outbox.pending("x", 10) == []
    assert [one.alert.capture for one in outbox.pending("y", 10)] == ["c"]
    assert outbox.counts()[:3] == (1, 1, 1)
    outbox.close()


def test_an_outbox_in_memory_is_bounded_and_counts_what_it_lost() -> None:
    outbox = MemoryOutbox(most=2)
    for id in "abc":
        outbox.add(firing(id), ["x"])
    assert [one.alert.id for one in outbox.pending("x", 9)] == ["a", "b"]
    assert outbox.counts().lost == 1
