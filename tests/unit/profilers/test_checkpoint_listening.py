"""The profiler by what checkpoints of torch, the manager and the engine tell it."""

from __future__ import annotations

import gc
import sys

import pytest

from stepscope import CheckpointEventType, CheckpointProfiler
from tests.unit.profilers.standin_door import Call, Door, Watched

CHECKPOINT, RECOMPUTE, RETRIEVE, DEALLOCATE = CheckpointEventType


def test_a_checkpoint_becomes_three_events(profiler: CheckpointProfiler, door: Door) -> None:
    call = Call("block.1", kept_bytes=64, saved_bytes=4096)
    door.checkpointed(call, 2_000_000)
    door.recomputed(call, 3_000_000)
    door.released(call)
    assert [
        (event.layer_id, event.event_type, event.duration_ms, event.memory_bytes, event.held_bytes)
        for event in profiler.events()
    ] == [
        ("block.1", CHECKPOINT, 2.0, 4096, 64),
        ("block.1", RECOMPUTE, 3.0, 4096, 0),
        ("block.1", DEALLOCATE, 0.0, 64, -64),
    ]
    found = profiler.get_summary()
    assert found.total_memory_saved == 4096
    assert (found.memory_in_use_bytes, found.peak_memory_in_use_bytes) == (0, 64)


def test_the_peak_that_is_saved_is_what_is_not_kept_after_a_recomputation(
    profiler: CheckpointProfiler, door: Door
) -> None:
    calls = [Call(f"block.{at}", saved_bytes=size) for at, size in enumerate((100, 200, 400))]
    for _ in range(3):  # steps
        for call in calls:
            door.checkpointed(call)
        for call in reversed(calls):
            door.recomputed(call)
            door.released(call)
    # After the last block was recomputed, the first two were still not kept.
    assert profiler.get_summary().peak_memory_saved_bytes == 300


def test_what_is_never_recomputed_saves_nothing_at_a_peak(
    profiler: CheckpointProfiler, door: Door
) -> None:
    calls = [Call("block", saved_bytes=100) for _ in range(5)]
    for call in calls:  # an evaluation that forgot no_grad
        door.checkpointed(call)
    for call in calls:
        door.released(call)
    last = Call("block", saved_bytes=70)
    door.checkpointed(last)
    door.recomputed(last)
    assert profiler.get_summary().peak_memory_saved_bytes == 0
    assert profiler.get_summary().total_memory_saved == 570


def test_a_second_recomputation_is_counted_and_not_taken_off_again(
    profiler: CheckpointProfiler, door: Door
) -> None:
    first, second = Call("a", saved_bytes=100), Call("b", saved_bytes=10)
    door.checkpointed(first)
    door.checkpointed(second)
    door.recomputed(second)
    door.recomputed(second)
    assert profiler.get_summary().peak_memory_saved_bytes == 100
    found = profiler.get_layer_profile("b")
    assert found is not None
    assert found.recompute_count == 2


def test_bytes_that_are_not_known_count_as_none_until_they_are(
    profiler: CheckpointProfiler, door: Door
) -> None:
    call = Call("reentrant", kept_bytes=-1, saved_bytes=-1)
    door.checkpointed(call, 1)
    assert profiler.get_summary().total_memory_saved == 0
    call.saved_bytes = 512
    door.recomputed(call, 1)
    door.recomputed(call, 1)
    door.released(call)
    found = profiler.get_layer_profile("reentrant")
    assert found is not None
    assert (found.total_memory_saved, found.measured_count) == (512, 1)
    assert profiler.get_summary().total_memory_saved == 512
    profiler.start_profiling()
    assert profiler.get_summary().total_memory_saved == 0


def test_a_backward_pass_is_over_when_nothing_is_live(
    profiler: CheckpointProfiler, door: Door
) -> None:
    (listener,) = door.listeners
    for _ in range(7):
        calls = [Call("a"), Call("b")]
        for call in calls:
            door.checkpointed(call)
        for call in calls:
            door.recomputed(call)
            door.released(call)
    forgotten = Call("never recomputed")
    for _ in range(100):
        door.checkpointed(forgotten)
        door.released(forgotten)
    assert all(listener.wants_bytes for _ in range(100)), "seven passes, all is measured"


def test_after_some_passes_the_bytes_of_some_are_measured_and_stand_for_the_others(
    profiler: CheckpointProfiler, door: Door
) -> None:
    (listener,) = door.listeners
    wanted = 0
    for _ in range(10_000):
        is_wanted = listener.wants_bytes
        wanted += is_wanted
        size = 100 if is_wanted else -1
        call = Call("block", kept_bytes=size, saved_bytes=size)
        door.checkpointed(call)
        door.recomputed(call)
        door.released(call)
    assert 1000 < wanted < 1500, "the first eight, and an eighth of the others"
    found = profiler.get_layer_profile("block")
    assert found is not None
    assert found.total_memory_saved == 1_000_000
    assert found.measured_count == wanted
    assert profiler.get_summary().memory_in_use_bytes == 0


def test_what_is_registered_by_hand_is_in_use_and_saves_nothing(
    profiler: CheckpointProfiler, manager: Watched, engine: Watched
) -> None:
    manager.tell("block", CHECKPOINT, 1000, 800)
    manager.tell("block", RETRIEVE, 1000, 800)
    engine.tell("block", RETRIEVE, 500, 300)
    found = profiler.get_summary()
    assert (found.memory_in_use_bytes, found.total_memory_saved) == (800, 0)
    manager.tell("block", DEALLOCATE, 0, 800)
    profile = profiler.get_layer_profile("block")
    assert profile is not None
    assert (profile.cache_hit_count, profile.deallocation_count) == (2, 1)
    assert profiler.get_summary().memory_in_use_bytes == 0


def test_a_profiler_that_nobody_has_any_more_stops_to_listen(
    door: Door, manager: Watched, engine: Watched
) -> None:
    profiler = CheckpointProfiler(manager, engine)
    profiler.start_profiling()
    assert door.listeners
    del profiler
    gc.collect()
    door.checkpointed(Call("block"))
    assert (door.listeners, manager.observers, engine.observers) == ([], [], [])


def test_two_profilers_count_each_for_itself(
    profiler: CheckpointProfiler, door: Door, manager: Watched, engine: Watched
) -> None:
    with CheckpointProfiler(manager, engine) as other:
        other.start_profiling()
        door.checkpointed(Call("block"))
        other.stop_profiling()
        door.checkpointed(Call("block"))
        assert other.get_summary().total_events == len(other.events()) == 1
    assert profiler.get_summary().total_events == len(profiler.events()) == 2


@pytest.mark.parametrize(
    ("prefetches", "streams", "could"),
    [(False, object(), True), (True, object(), False), (False, None, False)],
)
def test_the_summary_knows_whether_the_engine_could_recompute_ahead(
    profiler: CheckpointProfiler,
    engine: Watched,
    monkeypatch: pytest.MonkeyPatch,
    prefetches: bool,
    streams: object,
    could: bool,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)  # as if it was imported
    monkeypatch.setattr("stepscope.checkpointing.streams.find_streams", lambda: streams)
    monkeypatch.setattr(engine, "prefetches", prefetches)
    assert profiler.get_summary().can_recompute_ahead is could
