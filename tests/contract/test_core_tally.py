"""What both cores promise about events that are counted by layer and kind."""

from __future__ import annotations

import enum
import gc
import os
import threading
import time
import tracemalloc
from typing import Any

import pytest

from tests.contract.frames_reader import decode

MARK = 4


class Kind(enum.Enum):
    CHECKPOINT = "checkpoint"
    RECOMPUTE = "recompute"
    DEALLOCATE = "deallocate"


def make(core: Any, keep: int = 1024) -> Any:
    tally = core.Tally(core.intern("event"), "checkpoint", "deallocate", keep)
    tally.enabled = True
    return tally


def rows_of(core: Any) -> list[dict[str, Any]]:
    return decode(core.drain()).named("event")


def counted(tally: Any) -> list[tuple[Any, ...]]:
    """Totals without their times."""
    return [row[:5] for row in tally.totals()]


def test_totals_are_kept_by_layer_and_kind(core: Any) -> None:
    tally = make(core)
    tally.add("a", Kind.CHECKPOINT, 10, 100)
    tally.add("a", Kind.CHECKPOINT, 5, 1)
    tally.add("b", Kind.RECOMPUTE, 7, 0)
    tally.add("a", "mine", 1, 2)
    assert counted(tally) == [
        ("a", "checkpoint", 2, 15, 101),
        ("a", "mine", 1, 1, 2),
        ("b", "recompute", 1, 7, 0),
    ]
    tally.add("b", "checkpoint", 0, 0)  # kinds in the order in which they were seen first
    assert [row[1] for row in tally.totals() if row[0] == "b"] == ["checkpoint", "recompute"]


def test_the_first_and_the_last_time_are_on_the_clock_of_the_core(core: Any) -> None:
    tally = make(core)
    before_ns = core.now_ns()
    tally.add("a", "kind", 0, 0)
    between_ns = core.now_ns()
    tally.add("a", "kind", 0, 0)
    ((*_, first_ns, last_ns),) = tally.totals()
    assert before_ns <= first_ns <= between_ns <= last_ns <= core.now_ns()


def test_a_member_of_an_enum_and_its_value_are_one_kind(core: Any) -> None:
    tally = make(core)
    tally.add("a", Kind.RECOMPUTE, 1, 0)
    tally.add("a", "recompute", 1, 0)
    tally.add("a", f"re{'compute'[:]}", 1, 0)  # another object
    assert counted(tally) == [("a", "recompute", 3, 3, 0)]


def test_an_event_is_a_mark_with_all_that_was_said(core: Any) -> None:
    tally = make(core)
    tally.clear(42)
    core.set_step(3)
    before_ns = core.now_ns()
    tally.add("block.1", Kind.CHECKPOINT, 1500, 4096, 64)
    (row,) = rows_of(core)
    assert (row["type"], row["text"]) == (MARK, "checkpoint\tblock.1")
    assert (row["duration_ns"], row["arg"], row["cpu_start_ns"]) == (1500, 4096, 64)
    assert (row["cpu_ns"], row["value"], row["step"]) == (42, 1.0, 3)
    assert before_ns <= row["time_ns"] <= core.now_ns()
    assert row["track"] == threading.get_native_id()


def test_milliseconds_become_nanoseconds(core: Any) -> None:
    tally = make(core)
    tally.record_event("a", Kind.RECOMPUTE, 3)
    tally.record_event("a", Kind.RECOMPUTE, 0.25, 7)
    tally.record_event(layer_id="a", event_type="recompute", duration_ms=1e-6, memory_bytes=1)
    assert counted(tally) == [("a", "recompute", 3, 3_250_001, 8)]


def test_what_checkpoints_hold_is_in_use_until_it_is_deallocated(core: Any) -> None:
    tally = make(core)
    tally.record_event("a", Kind.CHECKPOINT, 0, 100)
    tally.record_event("b", "checkpoint", 0, 50)
    tally.record_event("a", Kind.RECOMPUTE, 0, 1000)
    assert tally.in_use() == (150, 150)
    tally.record_event("a", Kind.DEALLOCATE, 0, 100)
    tally.add("b", Kind.CHECKPOINT, 0, 9999, 20)  # told apart: 20 are held
    assert tally.in_use() == (70, 150)


def test_a_layer_gives_back_no_more_than_it_has(core: Any) -> None:
    tally = make(core)
    tally.record_event("a", Kind.CHECKPOINT, 0, 10)
    tally.record_event("b", Kind.CHECKPOINT, 0, 10)
    tally.record_event("a", Kind.DEALLOCATE, 0, 1000)
    assert tally.in_use() == (10, 20)


def test_while_it_is_not_enabled_nothing_is_heard_nor_looked_at(core: Any) -> None:
    tally = core.Tally(core.intern("event"), "checkpoint", "deallocate", 8)
    tally.add("a", "kind", 1, 1)
    tally.record_event("a", object(), -1, -1)
    assert tally.totals() == []
    assert rows_of(core) == []


def test_it_can_begin_anew(core: Any) -> None:
    tally = make(core)
    tally.record_event("a", Kind.CHECKPOINT, 1, 1)
    tally.clear(7)
    assert (tally.totals(), tally.in_use()) == ([], (0, 0))
    tally.record_event("b", Kind.CHECKPOINT, 1, 1)
    assert counted(tally) == [("b", "checkpoint", 1, 1_000_000, 1)]
    assert [row["cpu_ns"] for row in rows_of(core)] == [0, 7]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("a", "kind", -1.0), ValueError, "duration_ms=-1.0 is not possible"),
        (("a", "kind", float("nan")), ValueError, "duration_ms=nan is not possible"),
        (("a", "kind", float("inf")), ValueError, "duration_ms=inf is not possible"),
        (("a", "kind", 1, -5), ValueError, "memory_bytes=-5 is not possible"),
        (("a", "kind", 1, 1 << 70), ValueError, "is not possible"),
        (("a", "ki\tnd", 1), ValueError, "without a tab"),
        (("a", "kind", "1"), TypeError, "real number"),
        (("a", "kind", 1, 1.5), TypeError, "integer"),
        (("a", 3, 1), TypeError, "event_type must be a member of CheckpointEventType or a str"),
        ((None, "kind", 1), TypeError, "layer_id must be a str, not NoneType"),
        (("a", "kind"), TypeError, "duration_ms"),
        (("\ud800", "kind", 1), UnicodeEncodeError, "surrogates"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_the_totals_right(
    core: Any, arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    tally = make(core)
    with pytest.raises(error, match=words):
        tally.record_event(*arguments)
    assert tally.totals() == []
    assert tally.in_use() == (0, 0)


def test_amounts_in_nanoseconds_are_looked_at_too(core: Any) -> None:
    tally = make(core)
    for amounts in ((-1, 0), (0, -1), (1 << 62, 0), (0, 0, 1 << 50), (0, 0, -(1 << 50))):
        with pytest.raises(ValueError, match="is not possible"):
            tally.add("a", "kind", *amounts)
    assert tally.totals() == []


def test_sums_end_at_the_largest_number_there_is(core: Any) -> None:
    tally = make(core)
    for _ in range(20):
        tally.add("a", "kind", (1 << 60) - 1, 0)
    assert counted(tally) == [("a", "kind", 20, (1 << 63) - 1, 0)]


def test_names_beyond_what_is_told_apart_are_counted_as_others(core: Any) -> None:
    tally = make(core, keep=1)
    for number in range(4200):
        tally.record_event(f"layer{number}", Kind.CHECKPOINT, 1, 1)
    totals = {row[0]: row[2] for row in tally.totals()}
    assert len(totals) == 4097
    assert totals["(other layers)"] == 104
    for number in range(70):
        tally.record_event("layer0", f"kind{number}", 1)
    kinds = {row[1]: row[2] for row in tally.totals() if row[0] == "layer0"}
    assert len(kinds) == 65
    assert kinds["(other types)"] == 7  # "checkpoint" is one of the 64
    assert tally.in_use() == (4200, 4200)
    core.drain()


def test_at_high_rates_ever_fewer_events_are_recorded_of_each_kind(core: Any) -> None:
    tally = make(core, keep=8)
    for _ in range(32):
        tally.add("a", "one", 1, 0)
        tally.add("a", "two", 1, 0)
    rows = rows_of(core)
    # 1 to 8, then every 2nd to 17, then every 4th to 35.
    assert [row["value"] for row in rows if row["text"] == "one\ta"] == [1.0] * 8 + [2.0] * 4 + [
        4.0
    ] * 4
    assert sum(1 for row in rows if row["text"] == "two\ta") == 16
    assert [row[2] for row in tally.totals()] == [32, 32]


@pytest.mark.not_under("asan", reason="its allocator keeps freed memory resident")
def test_a_million_events_take_no_more_memory_than_ten_thousand(core: Any) -> None:
    tally = make(core, keep=64)
    count = 1_000_000 if core.name == "native" else 40_000

    def record(events: int) -> None:
        for number in range(events):
            tally.record_event("block", Kind.RECOMPUTE, 0.5, number & 7)
        core.drain()

    record(10_000)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    resident = resident_bytes()
    record(count)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000
    assert resident_bytes() - resident < 2_000_000
    assert tally.totals()[0][2] == count + 10_000


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.threaded
def test_threads_do_not_lose_each_others_events(core: Any) -> None:
    tally = make(core, keep=1)

    def work(layer: str) -> None:
        for _ in range(2000):
            tally.add(layer, Kind.CHECKPOINT, 1, 1, 1)
            tally.add("shared", Kind.RECOMPUTE, 1, 1)

    threads = [threading.Thread(target=work, args=(f"layer{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = {(row[0], row[1]): row[2] for row in tally.totals()}
    assert counts[("shared", "recompute")] == 8000
    assert tally.in_use() == (8000, 8000)


def test_a_forked_child_counts_anew(core: Any) -> None:
    tally = make(core)
    tally.record_event("a", Kind.CHECKPOINT, 1, 5)
    child = os.fork()
    if child == 0:
        core.after_fork()
        empty = tally.totals() == [] and tally.in_use() == (0, 0)
        tally.record_event("b", Kind.CHECKPOINT, 1, 3)
        right = counted(tally) == [("b", "checkpoint", 1, 1_000_000, 3)]
        os._exit(0 if empty and right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert counted(tally) == [("a", "checkpoint", 1, 1_000_000, 5)]


def test_a_kind_whose_value_runs_python_does_no_harm(core: Any) -> None:
    tally = make(core)

    class Slippery:
        @property
        def value(self) -> str:
            tally.clear(1)
            time.sleep(0)
            return "kind"

    tally.add("a", Slippery(), 1, 1)
    assert counted(tally) == [("a", "kind", 1, 1, 1)]
