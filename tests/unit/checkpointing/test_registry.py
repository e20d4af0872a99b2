"""Checkpoints that are held by hand."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from stepscope.checkpointing.engine import RecomputationEngine
from stepscope.checkpointing.manager import CheckpointManager
from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import CheckpointEventType

CHECKPOINT, RECOMPUTE = CheckpointEventType.CHECKPOINT, CheckpointEventType.RECOMPUTE
RETRIEVE, DEALLOCATE = CheckpointEventType.RETRIEVE, CheckpointEventType.DEALLOCATE


class Told:
    """What observers heard: (layer, type, bytes), and that durations are measured."""

    def __init__(self, *observed: Any) -> None:
        self.events: list[tuple[str, CheckpointEventType, int]] = []
        for one in observed:
            one.observers.append(self)

    def __call__(
        self, layer_id: str, happened: CheckpointEventType, duration_ns: int, size_bytes: int
    ) -> None:
        assert duration_ns > 0
        self.events.append((layer_id, happened, size_bytes))


def test_what_is_registered_comes_back_as_it_is() -> None:
    manager = CheckpointManager()
    told = Told(manager)
    value = {"hidden": torch.zeros(10), "more": (torch.zeros(5), None)}
    manager.register_checkpoint("lstm", value)
    assert manager.has_checkpoint("lstm")
    assert manager.retrieve_checkpoint("lstm") is value
    assert manager.deallocate_checkpoint("lstm")
    assert not manager.has_checkpoint("lstm")
    assert told.events == [
        ("lstm", CHECKPOINT, 60),
        ("lstm", RETRIEVE, 60),
        ("lstm", DEALLOCATE, 60),
    ]


def test_bytes_are_counted_by_storage_and_the_peak_stays() -> None:
    manager = CheckpointManager()
    base = torch.zeros(100)
    manager.register_checkpoint("a", base)
    manager.register_checkpoint("b", [base[:10], torch.zeros(25)])
    assert (manager.checkpoint_count, manager.memory_used_bytes) == (2, 500)
    manager.deallocate_checkpoint("a")
    assert manager.memory_used_bytes == 500  # b holds the same storage
    manager.clear_checkpoints()
    assert (manager.checkpoint_count, manager.memory_used_bytes) == (0, 0)
    assert manager.peak_memory_used_bytes == 500


def test_registering_a_name_again_replaces_what_it_held() -> None:
    manager = CheckpointManager()
    told = Told(manager)
    manager.register_checkpoint("a", torch.zeros(10))
    manager.register_checkpoint("a", torch.ones(5))
    assert torch.equal(manager.retrieve_checkpoint("a"), torch.ones(5))
    assert (manager.checkpoint_count, manager.memory_used_bytes) == (1, 20)
    assert told.events[:3] == [("a", CHECKPOINT, 40), ("a", DEALLOCATE, 40), ("a", CHECKPOINT, 20)]


def test_asking_for_what_is_not_there_names_what_is() -> None:
    manager = CheckpointManager()
    manager.register_checkpoint("a", torch.zeros(1))
    with pytest.raises(UsageError, match=r"no checkpoint of 'b'\. Registered: a\."):
        manager.retrieve_checkpoint("b")
    assert not manager.deallocate_checkpoint("b")


def test_a_checkpoint_without_tensors_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no tensor"):
        CheckpointManager().register_checkpoint("a", [1, 2])


def test_what_is_not_there_is_recomputed_by_the_engine_and_not_registered() -> None:
    engine = RecomputationEngine()
    manager = CheckpointManager(engine=engine)
    told = Told(manager, engine)
    for _ in range(2):
        assert torch.equal(manager.retrieve_or_recompute("a", lambda: torch.ones(3)), torch.ones(3))
    manager.register_checkpoint("a", torch.zeros(3))
    assert torch.equal(manager.retrieve_or_recompute("a", lambda: torch.ones(3)), torch.zeros(3))
    happened = [event[1] for event in told.events]
    assert happened == [RECOMPUTE, RECOMPUTE, CHECKPOINT, RETRIEVE]


def test_an_error_while_recomputing_is_the_programs_own() -> None:
    def broken() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        CheckpointManager().retrieve_or_recompute("a", broken)


def test_an_observer_that_fails_or_asks_back_stops_nobody() -> None:
    manager = CheckpointManager()
    counts: list[int] = []

    def broken(*_event: Any) -> None:
        counts.append(manager.checkpoint_count)
        raise RuntimeError("observer")

    manager.observers.append(broken)
    told = Told(manager)
    manager.register_checkpoint("a", torch.zeros(1))
    assert counts == [1]
    assert len(told.events) == 1


def test_many_threads_leave_the_sums_right() -> None:
    manager = CheckpointManager()

    def work(number: int) -> None:
        for at in range(200):
            manager.register_checkpoint(f"{number}.{at % 3}", torch.zeros(10))
            manager.deallocate_checkpoint(f"{number}.{(at + 1) % 3}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert manager.memory_used_bytes == 40 * manager.checkpoint_count
    assert manager.checkpoint_count == 4 * 2  # of three names each has just let go of one
    manager.clear_checkpoints()
    assert manager.memory_used_bytes == 0
