"""What both cores promise about operations."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from tests.contract.frames_reader import decode

SPAN, SAMPLE = 1, 2
FAILED = 1
NEVER = 1 << 62


@pytest.fixture
def operation(core: Any) -> Any:
    return core.Operation(core.intern("operation"), core.intern("1/work"), 4096)


def spans(core: Any) -> list[dict[str, Any]]:
    return [row for row in decode(core.drain()).rows if row["name"] == "operation"]


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_run_is_a_span_with_the_identity_of_its_operation(core: Any, operation: Any) -> None:
    with operation.run():
        time.sleep(0.02)
    (row,) = spans(core)
    assert (row["text"], row["type"], row["flags"]) == ("1/work", SPAN, 0)
    assert row["duration_ns"] >= 20_000_000
    assert row["track"] == threading.get_native_id()


def test_totals_tell_waiting_from_computing(core: Any, operation: Any) -> None:
    with operation.run():
        time.sleep(0.05)
        burn(0.1)
    totals = operation.totals()
    assert totals["calls"] == 1
    assert totals["wall_ns"] >= 150_000_000
    cpu_ns = totals["user_ns"] + totals["system_ns"]
    assert 100_000_000 <= cpu_ns < totals["wall_ns"]


def test_cpu_time_can_be_asked_for_at_any_time(core: Any) -> None:
    before = core.cpu_now()
    burn(0.05)
    assert sum(core.cpu_now()) - sum(before) >= 50_000_000


def test_the_cpu_time_of_children_counts_when_they_were_waited_for(
    core: Any, operation: Any
) -> None:
    with operation.run():
        child = os.fork()
        if child == 0:
            burn(0.1)
            os._exit(0)
        os.waitpid(child, 0)
    totals = operation.totals()
    assert totals["user_ns"] + totals["system_ns"] >= 100_000_000


def test_runs_repeat_nest_and_overlap(core: Any, operation: Any) -> None:
    outer, other = operation.run(), operation.run()
    with outer:
        other.__enter__()
        with operation.run():
            assert operation.totals()["running"] == 3
    other.__exit__(None, None, None)
    totals = operation.totals()
    assert (totals["calls"], totals["running"]) == (3, 0)
    lasted = [row["duration_ns"] for row in spans(core)]
    assert len(lasted) == 3
    assert totals["wall_ns"] == sum(lasted)
    assert totals["shortest_ns"] == min(lasted)
    assert totals["longest_ns"] == max(lasted)
    assert totals["last_ns"] == lasted[-1]


def test_a_run_that_an_exception_left_is_counted_and_flagged(core: Any, operation: Any) -> None:
    with pytest.raises(KeyError), operation.run():
        raise KeyError
    assert operation.totals()["failed"] == 1
    assert [row["flags"] for row in spans(core)] == [FAILED]


def test_an_exit_without_an_enter_changes_nothing(core: Any, operation: Any) -> None:
    operation.run().__exit__(None, None, None)
    assert operation.totals()["calls"] == 0


def test_a_run_object_can_be_used_again_but_not_twice_at_once(core: Any, operation: Any) -> None:
    run = operation.run()
    with run, run:
        pass
    with run:
        pass
    assert operation.totals()["calls"] == 2


def test_an_abandoned_run_is_not_running_any_more(core: Any, operation: Any) -> None:
    run = operation.run()
    run.__enter__()
    del run
    assert operation.totals()["running"] == 0
    assert operation.totals()["calls"] == 0


def test_many_runs_leave_few_spans_and_exact_totals(core: Any, operation: Any) -> None:
    core.drain()
    for _ in range(40_000):
        with operation.run():
            pass
    core.drain()
    assert operation.totals()["calls"] == 40_000
    kept = core.counters()["recorded"]
    for _ in range(4_000):
        with operation.run():
            pass
    assert 100 < core.counters()["recorded"] - kept < 1000


@pytest.mark.threaded
def test_threads_do_not_disturb_each_other(core: Any, operation: Any) -> None:
    def work() -> None:
        for _ in range(500):
            with operation.run():
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert operation.totals()["calls"] == 4000
    assert operation.totals()["running"] == 0


def test_memory_is_sampled_at_both_ends(core: Any, operation: Any) -> None:
    core.watch_memory(core.intern("rss"), core.intern("peak"))
    core.drain()
    with operation.run():
        time.sleep(0.01)
    rows = decode(core.drain()).rows
    rss = [row for row in rows if row["name"] == "rss"]
    assert [row["arg"] for row in rss] == [os.getpid()] * 2
    assert all(row["value"] > 1_000_000 for row in rss)
    (span,) = [row for row in rows if row["name"] == "operation"]
    end_ns = span["time_ns"] + span["duration_ns"]
    assert rss[0]["time_ns"] <= span["time_ns"] <= end_ns <= rss[1]["time_ns"]


@pytest.mark.not_under("asan", reason="its allocator keeps freed memory resident")
def test_the_peak_of_a_short_run_is_seen(core: Any, operation: Any) -> None:
    if not core.watch_memory(core.intern("rss"), core.intern("peak")):
        pytest.skip("this kernel does not let the mark be reset")
    time.sleep(0.2)  # saves up for readings
    with operation.run():
        block = bytearray(100 << 20)
        block[::4096] = b"x" * len(block[::4096])
        del block
    with operation.run():
        pass
    rows = decode(core.drain()).rows
    before, peak, _, after = [row["value"] for row in rows if row["name"] == "peak"]
    assert peak - before > 95 << 20
    assert peak - after > 95 << 20, "the mark was reset"
    assert [row["arg"] for row in rows if row["name"] == "operation"] == [3, 3]


def test_somebody_can_be_called_at_the_ends_of_runs(core: Any, operation: Any) -> None:
    calls = []

    def callback() -> int:
        calls.append(core.now_ns())
        return int(core.now_ns()) + 50_000_000

    core.call_at(callback, core.now_ns())
    try:
        for _ in range(100):
            with operation.run():
                pass
        assert len(calls) == 1
        time.sleep(0.06)
        with operation.run():
            pass
        assert len(calls) == 2
    finally:
        core.call_at(None, NEVER)


def test_a_callback_that_fails_is_not_called_again(core: Any, operation: Any) -> None:
    calls = []

    def callback() -> int:
        calls.append(1)
        raise RuntimeError

    core.call_at(callback, 0)
    try:
        for _ in range(3):
            with operation.run():
                pass
        with pytest.raises(KeyError), operation.run():
            raise KeyError
    finally:
        core.call_at(None, NEVER)
    assert calls == [1]
    assert operation.totals()["calls"] == 4


def test_a_forked_child_counts_anew(core: Any, operation: Any) -> None:
    with operation.run():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            core.after_fork()
            before = operation.totals()["calls"]
            with operation.run():
                pass
            os.write(write, bytes([before, operation.totals()["calls"]]))
            os._exit(0)
        os.waitpid(child, 0)
    assert os.read(read, 2) == bytes([0, 1])
    os.close(read)
    os.close(write)
    assert operation.totals()["calls"] == 1


def test_nothing_can_be_called_entered_and_left(core: Any) -> None:
    recorded = core.counters()["recorded"]
    with core.nothing("name") as given:
        assert given is core.nothing
    with pytest.raises(KeyError), core.nothing:
        raise KeyError
    assert core.counters()["recorded"] == recorded


def run_and_wait(operation: Any) -> None:
    with operation.run():
        pass
    time.sleep(1)


def test_an_operation_is_known_to_have_begun_before_it_ends(core: Any, operation: Any) -> None:
    before_ns = core.now_ns()
    with operation.run():
        began_ns = operation.totals()["first_start_ns"]
        assert before_ns <= began_ns <= core.now_ns()
    assert operation.totals()["first_start_ns"] == began_ns


def test_a_long_run_is_read_at_its_end_whatever_was_spent(core: Any, operation: Any) -> None:
    if not core.watch_memory(core.intern("rss"), core.intern("peak")):
        pytest.skip("this kernel does not let the mark be reset")
    time.sleep(0.3)  # saves up for readings
    short = core.Operation(core.intern("operation"), core.intern("1/short"), 1)
    with operation.run():
        until = time.monotonic() + 0.05
        while time.monotonic() < until:  # spends all of it
            with short.run():
                pass
    assert spans(core)[-1]["arg"] == 3


def test_an_interrupt_during_a_callback_reaches_the_program(core: Any, operation: Any) -> None:
    calls = []

    def callback() -> int:
        calls.append(1)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
            sum(range(10))
        return NEVER

    core.call_at(callback, 0)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_and_wait(operation)
    finally:
        core.call_at(None, NEVER)
