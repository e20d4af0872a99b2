"""The profiler by what it is told by hand: every item of the specification's list."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any

import pytest

from stepscope import (
    CheckpointEventType,
    CheckpointProfiler,
    LayerProfile,
    ProfilingSummary,
    UsageError,
)
from stepscope.record.core import core
from stepscope.session import checkpoint_analyses, extensions
from tests.unit.profilers.standin_door import Door, Watched

CHECKPOINT, RECOMPUTE, RETRIEVE, DEALLOCATE = CheckpointEventType


def record_some(profiler: CheckpointProfiler) -> None:
    profiler.record_event("a", CHECKPOINT, 10, 1000)
    profiler.record_event("a", CHECKPOINT, 20, 500)
    profiler.record_event("b", CHECKPOINT, 1.5, 4096)
    profiler.record_event("a", RECOMPUTE, 7)
    profiler.record_event("a", RETRIEVE, 0.25)
    profiler.record_event("b", "offload", 3, 8)


# ---- starting and stopping ----


def test_start_profiling_starts_and_stop_profiling_stops(
    door: Door, manager: Watched, engine: Watched
) -> None:
    with CheckpointProfiler(manager, engine) as profiler:
        states = [profiler.is_profiling]
        profiler.start_profiling()
        states.append(profiler.is_profiling)
        assert (len(door.listeners), len(manager.observers), len(engine.observers)) == (1, 1, 1)
        profiler.record_event("a", CHECKPOINT, 1)
        profiler.stop_profiling()
        profiler.stop_profiling()
        assert [*states, profiler.is_profiling] == [False, True, False]
        assert (door.listeners, manager.observers, engine.observers) == ([], [], [])
        profiler.record_event("a", CHECKPOINT, 1)
        assert profiler.get_summary().total_events == 1, "what was counted stays, no more comes"


def test_events_before_the_start_are_ignored_and_a_start_forgets(
    door: Door, manager: Watched, engine: Watched
) -> None:
    with CheckpointProfiler(manager, engine) as profiler:
        record = profiler.record_event  # one may keep it
        record("early", CHECKPOINT, 1)
        assert profiler.get_all_layer_profiles() == {}
        for layer in ("first", "second"):
            profiler.start_profiling()
            record(layer, CHECKPOINT, 1, 10)
            assert list(profiler.get_all_layer_profiles()) == [layer]
            assert [event.layer_id for event in profiler.events()] == [layer]
            assert profiler.get_summary().peak_memory_in_use_bytes == 10
        assert (len(door.listeners), len(manager.observers)) == (1, 1)


def test_a_closed_profiler_is_empty_and_cannot_be_started(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    profiler.close()
    profiler.close()
    assert not profiler.is_profiling
    assert profiler.get_all_layer_profiles() == {}
    assert profiler.get_summary().total_events == 0
    assert profiler.events() == []
    profiler.record_event("a", CHECKPOINT, 1)
    assert profiler.get_summary().total_events == 0
    with pytest.raises(UsageError, match="make a new CheckpointProfiler"):
        profiler.start_profiling()


def test_without_a_manager_or_an_engine_it_says_what_to_pass(
    manager: Watched, engine: Watched
) -> None:
    missing: Any = None
    with pytest.raises(UsageError, match=r"checkpoint_manager=None .* the CheckpointManager"):
        CheckpointProfiler(missing, engine)
    with pytest.raises(UsageError, match=r"recompute_engine=None .* the RecomputationEngine"):
        CheckpointProfiler(manager, missing)


# ---- recording ----


def test_record_event_records_events(profiler: CheckpointProfiler) -> None:
    before = datetime.now(UTC)
    record_some(profiler)
    first, *_, last = found = profiler.events()
    assert len(found) == 6
    assert (first.layer_id, first.event_type, first.duration_ms) == ("a", CHECKPOINT, 10)
    assert (first.memory_bytes, first.held_bytes) == (1000, 1000)
    assert (last.layer_id, last.event_type, last.memory_bytes) == ("b", "offload", 8)
    moments = [event.timestamp for event in found]
    assert sorted(moments) == moments
    slack = timedelta(milliseconds=5)  # two clocks were read one after the other
    assert before - slack <= moments[0] <= moments[-1] <= datetime.now(UTC) + slack


def test_events_of_all_threads_are_counted(profiler: CheckpointProfiler) -> None:
    def work() -> None:
        for _ in range(300):
            profiler.record_event("shared", RECOMPUTE, 1)
            profiler.get_summary()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert profiler.get_summary().total_recompute_time == 1200
    found = profiler.events()
    assert len(found) == 1024 + 88, "1,024, then every second"
    assert found == sorted(found, key=lambda event: event.timestamp)


def test_a_wrong_event_is_refused_with_a_reason(profiler: CheckpointProfiler) -> None:
    with pytest.raises(ValueError, match="duration_ms=-1 is not possible"):
        profiler.record_event("a", CHECKPOINT, -1)
    assert profiler.get_summary().total_events == 0


# ---- reading ----


def test_get_layer_profile_returns_the_profile_of_a_layer(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    assert profiler.get_layer_profile("a") == LayerProfile(
        layer_id="a",
        checkpoint_count=2,
        total_checkpoint_time_ms=30.0,
        recompute_count=1,
        total_recompute_time_ms=7.0,
        cache_hit_count=1,
        total_memory_saved=1500,
    )
    found = profiler.get_layer_profile("b")
    assert found is not None
    assert found.custom_counts == {"offload": 1}
    assert profiler.get_layer_profile("unknown") is None


def test_all_layer_profiles_are_a_copy(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    profiler.get_all_layer_profiles().clear()
    profiler.get_all_layer_profiles()["a"].checkpoint_count = 99
    found = profiler.get_all_layer_profiles()
    assert list(found) == ["a", "b"]
    assert found["a"].checkpoint_count == 2


def test_get_summary_sums_all_events(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    found = profiler.get_summary()
    assert found.total_events == 6
    assert (found.total_checkpoint_time, found.total_recompute_time) == (31.5, 7)
    assert found.total_memory_saved == 5596
    assert [one.layer_id for one in found.layer_profiles] == ["a", "b"]
    assert found.start_time.utcoffset() == timedelta(0)
    lasted_ms = (found.end_time - found.start_time) / timedelta(milliseconds=1)
    assert found.duration == pytest.approx(lasted_ms, abs=0.002)


def test_memory_in_use_is_told_from_memory_that_was_saved(profiler: CheckpointProfiler) -> None:
    for _ in range(10):
        profiler.record_event("a", CHECKPOINT, 1, 100)
        profiler.record_event("a", DEALLOCATE, 1, 100)
    profiler.record_event("a", CHECKPOINT, 1, 30)
    found = profiler.get_summary()
    assert found.total_memory_saved == 1030
    assert (found.memory_in_use_bytes, found.peak_memory_in_use_bytes) == (30, 100)


def test_generate_report_is_the_text_of_the_summary(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    report = profiler.generate_report()
    assert report == str(profiler.get_summary())
    assert "Total Checkpoint Time: 31.50ms\nTotal Recompute Time: 7ms\n" in report
    assert report.index("\nb:\n") < report.index("\na:\n"), "who saves most comes first"


def test_export_to_json_is_the_indented_summary(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    text = profiler.export_to_json()
    found = json.loads(text)
    assert text.startswith('{\n  "start_time": "')
    assert found["total_memory_saved"] == 5596
    assert found["layer_profiles"][0]["average_checkpoint_time_ms"] == 15
    assert found["layer_profiles"][1]["custom_counts"] == {"offload": 1}


def test_a_profile_with_no_events_is_empty_and_not_an_error(profiler: CheckpointProfiler) -> None:
    found = profiler.get_summary()
    assert (found.total_events, found.duration, found.layer_profiles) == (0, 0.0, ())
    assert found.start_time == found.end_time
    assert profiler.generate_report().endswith("===============\n")
    assert json.loads(profiler.export_to_json())["layer_profiles"] == []
    assert profiler.events() == []


def test_a_very_long_session_takes_flat_memory(profiler: CheckpointProfiler) -> None:
    def record(count: int) -> None:
        for number in range(count):
            profiler.record_event("block", RECOMPUTE, 0.001, number & 3)

    count = 1_000_000 if core.name == "native" else 50_000
    record(20_000)
    profiler.events()
    tracemalloc.start()
    record(count)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 100_000
    assert profiler.get_summary().total_events == count + 20_000
    assert profiler.get_summary().total_recompute_time == pytest.approx(count / 1000 + 20)
    assert len(profiler.events()) < 16_384


def test_a_forked_child_counts_anew_and_can_go_on(profiler: CheckpointProfiler) -> None:
    record_some(profiler)
    child = os.fork()
    if child == 0:
        empty = profiler.get_summary().total_events == 0
        profiler.record_event("child", CHECKPOINT, 1)
        right = list(profiler.get_all_layer_profiles()) == ["child"]
        os._exit(0 if empty and right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert profiler.get_summary().total_events == 6


# ---- plugins ----


def test_an_analysis_is_run_with_every_summary(profiler: CheckpointProfiler) -> None:
    profiler.add_analysis("events", lambda summary: {"count": summary.total_events})
    record_some(profiler)
    assert profiler.get_summary().analyses == {"events": {"count": 6}}
    assert json.loads(profiler.export_to_json())["analyses"]["events"]["count"] == 6


def test_an_analysis_that_fails_says_so_and_stops_no_other(profiler: CheckpointProfiler) -> None:
    def broken(summary: ProfilingSummary) -> float:
        return 1 / summary.total_events

    profiler.add_analysis("broken", broken)
    profiler.add_analysis("no json", lambda summary: object())
    profiler.add_analysis("fine", lambda summary: 1)
    found = profiler.get_summary().analyses
    assert found["broken"] == "failed: ZeroDivisionError: division by zero"
    assert found["no json"].startswith("failed: TypeError: Object of type object is not JSON")
    assert found["fine"] == 1
    with pytest.raises(UsageError, match="takes a ProfilingSummary"):
        profiler.add_analysis("no function", "text")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no name"):
        profiler.add_analysis("", broken)


def test_analyses_of_installed_packages_are_found(
    profiler: CheckpointProfiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = checkpoint_analyses.GROUP
    offered = [
        metadata.EntryPoint("title", "builtins:str", group),  # str(summary)
        metadata.EntryPoint("gone", "no_such_package:function", group),
    ]
    monkeypatch.setattr(
        metadata, "entry_points", lambda *, group: [one for one in offered if one.group == group]
    )
    extensions._installed.cache_clear()
    try:
        found = profiler.get_summary().analyses
    finally:
        extensions._installed.cache_clear()
    assert found["title"].startswith("Checkpoint Profiling Summary\n")
    assert found["gone"].startswith("failed: ModuleNotFoundError")
