"""What both cores promise about events."""

from __future__ import annotations

import gc
import os
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from stepscope.record.twin import TwinCore
from tests.contract.frames_reader import decode

SPAN, SAMPLE, MARK = 1, 2, 4
FAILED = 1


def test_a_span_has_the_time_it_was_open(core: Any) -> None:
    before = core.now_ns()
    token = core.begin(core.intern("work"), 7, 2.5)
    time.sleep(0.02)
    core.end(token)
    after = core.now_ns()
    (row,) = decode(core.drain()).rows
    assert (row["name"], row["arg"], row["value"], row["type"]) == ("work", 7, 2.5, SPAN)
    assert 20_000_000 <= row["duration_ns"] <= after - before
    assert before <= row["time_ns"] <= after
    assert row["track"] == threading.get_native_id()


def test_a_phase_span_tells_cpu_from_waiting(core: Any) -> None:
    name = core.intern("phase")
    token = core.begin(name)
    time.sleep(0.02)
    core.end(token)
    token = core.begin(name)
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    core.end(token)
    slept, burned = decode(core.drain()).rows
    assert slept["cpu_ns"] < 5_000_000
    assert burned["cpu_ns"] >= 20_000_000
    assert burned["cpu_start_ns"] >= slept["cpu_start_ns"] + slept["cpu_ns"]


def test_spans_nest_and_inner_ones_come_first(core: Any) -> None:
    outer = core.begin(core.intern("outer"))
    inner = core.begin(core.intern("inner"))
    core.end(inner)
    core.end(outer)
    rows = decode(core.drain()).rows
    assert [row["name"] for row in rows] == ["inner", "outer"]
    assert rows[1]["time_ns"] <= rows[0]["time_ns"]
    assert rows[1]["duration_ns"] >= rows[0]["duration_ns"]


def test_what_is_known_only_at_the_end_can_be_given_there(core: Any) -> None:
    core.end(core.begin(core.intern("save"), 1), 0, 4096)
    core.end(core.begin(core.intern("save"), 1), 0, None)
    assert [row["arg"] for row in decode(core.drain()).rows] == [4096, 1]


def test_ending_the_outer_span_closes_what_was_left_open_inside(core: Any) -> None:
    outer = core.begin(core.intern("outer"))
    core.begin(core.intern("forgotten"))
    core.end(outer)
    rows = decode(core.drain()).rows
    assert [(row["name"], row["flags"]) for row in rows] == [("forgotten", FAILED), ("outer", 0)]


def test_a_failed_span_is_flagged(core: Any) -> None:
    core.end(core.begin(core.intern("a")), 1)
    with pytest.raises(KeyError), core.span(core.intern("b")):
        raise KeyError
    assert [row["flags"] for row in decode(core.drain()).rows] == [FAILED, FAILED]


def test_a_context_manager_is_reusable_and_nestable(core: Any) -> None:
    span = core.span(core.intern("again"), 3)
    with span, span:
        pass
    with span:
        pass
    rows = decode(core.drain()).rows
    assert [row["arg"] for row in rows] == [3, 3, 3]
    assert all(row["cpu_ns"] == -1 for row in rows)


def test_spans_that_end_out_of_order_each_keep_their_own_time(core: Any) -> None:
    first, second = core.span(core.intern("first")), core.span(core.intern("second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    time.sleep(0.01)
    second.__exit__(None, None, None)
    rows = {row["name"]: row for row in decode(core.drain()).rows}
    assert rows["second"]["duration_ns"] >= 10_000_000 > rows["first"]["duration_ns"]


def test_is_open_sees_any_open_span_of_this_thread_only(core: Any) -> None:
    name, other = core.intern("a"), core.intern("b")
    token = core.begin(name)
    inner = core.begin(other)
    seen_elsewhere = []
    thread = threading.Thread(target=lambda: seen_elsewhere.append(core.is_open(name)))
    thread.start()
    thread.join()
    assert core.is_open(name)
    core.end(inner)
    core.end(token)
    assert not core.is_open(name)
    assert seen_elsewhere == [False]


def test_a_stale_or_foreign_token_changes_nothing(core: Any) -> None:
    outer = core.begin(core.intern("outer"))
    core.end(-1)
    core.end(999_999)
    core.end(outer)
    core.end(outer)
    assert [row["name"] for row in decode(core.drain()).rows] == ["outer"]


def test_nesting_too_deep_is_dropped_and_counted(core: Any) -> None:
    name = core.intern("deep")
    dropped_before = core.counters()["dropped"]
    tokens = [core.begin(name) for _ in range(70)]
    for token in reversed(tokens):
        core.end(token)
    assert len(decode(core.drain()).rows) == 64
    assert core.counters()["dropped"] - dropped_before == 6


def test_samples_and_marks_carry_value_text_and_step(core: Any) -> None:
    core.set_step(12)
    core.sample(core.intern("load"), 0.75, 3)
    core.mark(core.intern("note"), 9, core.intern("größer – 1"))
    core.complete(core.intern("elsewhere"), 1000, 50, 4, 1.5, 77)
    sample, mark, span = decode(core.drain()).rows
    assert (sample["type"], sample["value"], sample["arg"], sample["step"]) == (SAMPLE, 0.75, 3, 12)
    assert (mark["type"], mark["text"], mark["arg"]) == (MARK, "größer – 1", 9)
    assert (span["time_ns"], span["duration_ns"], span["track"]) == (1000, 50, 77)
    assert (span["arg"], span["value"]) == (4, 1.5)


def test_names_are_interned_once(core: Any) -> None:
    assert core.intern("same") == core.intern("same")
    assert core.intern("same") != core.intern("other")


def test_a_full_ring_drops_and_counts_instead_of_waiting(core: Any) -> None:
    dropped_before = core.counters()["dropped"]
    span = core.span(core.intern("many"))
    for _ in range(10_000):
        with span:
            pass
    kept = len(decode(core.drain()).rows)
    assert kept == 8192
    assert core.counters()["dropped"] - dropped_before == 10_000 - kept


def test_a_batch_holds_at_most_two_thousand_events(core: Any) -> None:
    span = core.span(core.intern("many"))
    for _ in range(4500):
        with span:
            pass
    assert decode(core.drain()).batch_sizes == [2000, 2000, 500]


@pytest.mark.threaded
def test_many_threads_record_at_once_and_nothing_is_mixed_or_lost(core: Any) -> None:
    def work(number: int) -> None:
        name = core.intern(f"thread-{number}")
        for i in range(500):
            core.end(core.begin(name, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    decoded = decode(core.drain())
    for number in range(16):
        rows = decoded.named(f"thread-{number}")
        assert [row["arg"] for row in rows] == list(range(500))
        assert len({row["track"] for row in rows}) == 1


@pytest.mark.threaded
def test_counters_survive_the_threads_that_counted(core: Any) -> None:
    before = core.counters()["recorded"]
    name = core.intern("short-lived")
    thread = threading.Thread(target=lambda: core.end(core.begin(name)))
    thread.start()
    thread.join()
    core.drain()
    core.drain()
    assert core.counters()["recorded"] - before == 1


def test_each_collection_is_a_span(core: Any) -> None:
    callback = core.gc_callback(core.intern("gc"))
    gc.collect()
    gc.disable()
    gc.callbacks.append(callback)
    try:
        cycle: list[Any] = []
        cycle.append(cycle)
        del cycle
        gc.collect(2)
        gc.collect(0)
    finally:
        gc.callbacks.remove(callback)
        gc.enable()
    full, young = decode(core.drain()).named("gc")
    assert (full["arg"], young["arg"]) == (2, 0)
    assert full["value"] >= 1
    assert full["duration_ns"] > 0


def test_what_was_recorded_can_be_discarded_counts_included(core: Any) -> None:
    core.drain()
    core.end(core.begin(core.intern("calibration")))
    core.discard()
    assert core.drain() == b""
    core.end(core.begin(core.intern("real")))
    assert [row["name"] for row in decode(core.drain()).rows] == ["real"]


def test_what_came_after_a_position_can_be_discarded_and_the_rest_stays(core: Any) -> None:
    core.drain()
    core.end(core.begin(core.intern("kept")))
    before, calls = core.position(), core.counters()["calls"]
    core.end(core.begin(core.intern("calibration")))
    core.discard(before)
    assert core.counters()["calls"] == calls
    core.end(core.begin(core.intern("kept too")))
    names = [row["name"] for row in decode(core.drain()).rows]
    assert names == ["kept", "kept too"]


def test_wrong_arguments_are_a_type_error(core: Any) -> None:
    for call in (core.begin, core.end, core.span, core.sample, core.intern):
        with pytest.raises(TypeError):
            call()


def test_a_collection_while_names_are_read_out_does_not_stop_a_thread_that_is_new(
    core: Any,
) -> None:
    """Its callback records, in the middle of what the core does: here by a thread without a log."""
    core.mark(core.intern("pending"))
    for number in range(2000):
        core.intern(f"name {number} of {core.now_ns()}")
    drained: list[bytes] = []
    thread = threading.Thread(target=lambda: drained.append(core.drain()), daemon=True)
    callback, before = core.gc_callback(core.intern("gc")), gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(500)  # some within the 2,000 names, few beside them
    try:
        thread.start()
        thread.join(20)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)
    assert not thread.is_alive()
    assert drained


def test_before_the_first_step_the_cpu_clock_is_read_at_both_ends_of_each_span(core: Any) -> None:
    name = core.intern("span")
    for _ in range(100):
        core.end(core.begin(name))
    rows = decode(core.drain()).named("span")
    assert [row for row in rows if row["cpu_start_ns"] < 0 or row["cpu_ns"] < 0] == []


def test_of_short_spans_the_cpu_clock_is_read_in_bursts_at_irregular_distances() -> None:
    now = [0]
    read_at: list[int] = []

    def read() -> int:
        read_at.append(now[0])
        return now[0]

    core: Any = TwinCore(lambda: now[0], read)
    core.set_step(1)
    name = core.intern("span")
    for _ in range(40_000):
        now[0] += 10_000
        core.end(core.begin(name))
        core.drain()
    bursts = [at for i, at in enumerate(read_at) if i >= 4 and at - read_at[i - 4] < 100_000]
    starts = [b for a, b in pairwise([-(10**9), *bursts]) if b - a > 1_000_000]
    distances = [b - a for a, b in pairwise(starts)]
    assert 5_000_000 <= min(distances) < 8_000_000 < 12_000_000 < max(distances) <= 15_100_000
    assert max(b - a for a, b in pairwise(read_at)) <= 500_000  # between bursts, single readings
    assert len(read_at) < 400 * 8  # of 80,000 ends


def test_the_end_of_a_long_span_is_read_though_its_start_was_not(core: Any) -> None:
    name = core.intern("span")
    core.set_step(1)
    for _ in range(100):  # more than one burst
        core.end(core.begin(name))
    core.drain()
    token = core.begin(name)
    time.sleep(0.002)
    before_ns = time.thread_time_ns()
    core.end(token)
    after_ns = time.thread_time_ns()
    (row,) = decode(core.drain(), {name: "span"}).named("span")
    end_ns = row["cpu_start_ns"] + row["cpu_ns"] if row["cpu_ns"] >= 0 else -2 - row["cpu_start_ns"]
    assert before_ns <= end_ns <= after_ns


def test_readings_of_the_cpu_clock_are_counted(core: Any) -> None:
    core.set_pace(1_000_000_000, 3_600_000_000_000)
    before, name = core.counters(), core.intern("forward")
    for number in range(1, 41):
        core.set_step(number)
        core.end(core.begin(name))
    after = core.counters()
    core.set_pace()
    rows = decode(core.drain()).rows
    ends = sum(row["cpu_ns"] >= 0 for row in rows) + sum(row["cpu_start_ns"] < -1 for row in rows)
    assert after["calls"] - before["calls"] == 40
    assert after["clocks"] - before["clocks"] == ends + sum(r["cpu_start_ns"] >= 0 for r in rows)
    assert after["clocks"] - before["clocks"] <= 24 + 2


def test_in_a_forked_child_cpu_clocks_are_read_as_ever(core: Any) -> None:
    core.set_pace(1_000_000_000, 3_600_000_000_000)
    for number in range(4):  # from here on none is read
        core.set_step(number)
    core.pause()
    child = os.fork()
    if child == 0:
        core.after_fork()
        core.end(core.begin(core.intern("in the child")))
        counted = core.counters()["clocks"] == 2 and core.set_pace()[1] == 10_000_000
        os._exit(0 if counted else 1)
    core.resume()
    _, status = os.waitpid(child, 0)
    core.set_pace()
    core.set_step(0)
    assert os.waitstatus_to_exitcode(status) == 0
