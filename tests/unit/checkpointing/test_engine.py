"""Recomputations by hand, the cache for repeated backward passes, and what is said of both."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import nn

from stepscope.checkpointing.engine import RecomputationEngine
from stepscope.checkpointing.manager import CheckpointManager
from stepscope.collect.checkpoints import CheckpointCall, door
from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import CheckpointEventType
from tests.unit.checkpointing.models import WIDTH, rows, step

ROOM = 1 << 30
ROWS = 6
TANH_BYTES = ROWS * WIDTH * 4  # what a block of `model` saves beside its input and its weight


def model(depth: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(depth)))


def checkpointed(engine: RecomputationEngine, depth: int = 3) -> nn.Sequential:
    made = model(depth)
    CheckpointManager(made, engine).checkpoint("*")
    return made


def test_a_recomputation_by_hand_is_told_with_its_bytes() -> None:
    engine = RecomputationEngine()
    told: list[Any] = []
    engine.observers.append(lambda *event: told.append(event))
    result = engine.recompute("a", torch.add, torch.ones(5), torch.ones(5), alpha=2)
    assert torch.equal(result, torch.full((5,), 3.0))
    ((layer, happened, duration_ns, size_bytes),) = told
    assert (layer, happened, size_bytes) == ("a", CheckpointEventType.RECOMPUTE, 20)
    assert duration_ns > 0


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "1GB"])
def test_the_room_of_the_cache_is_in_bytes(wrong: Any) -> None:
    with pytest.raises(UsageError, match="bytes from 0 on"):
        RecomputationEngine(wrong)


def test_a_hit_is_told_as_a_retrieval_and_nothing_runs() -> None:
    engine = RecomputationEngine(ROOM)
    told: list[Any] = []
    engine.observers.append(lambda *event: told.append(event))
    made = checkpointed(engine)
    seen: list[int] = []
    made[1][0].register_forward_hook(lambda *_: seen.append(1))
    step(made, rows(), backwards=3)
    assert len(seen) == 2  # forward, and the first backward
    assert [(event[0], event[1]) for event in told] == [
        (name, CheckpointEventType.RETRIEVE) for name in ("2", "1", "0") * 2
    ]
    # What lives anyway is not counted: a block's input is the result of the block before.
    assert {event[3] for event in told} == {TANH_BYTES}
    assert engine.cache_info()[:2] == (6, 3)


def test_a_checkpoint_tells_whether_its_last_run_was_a_retrieval() -> None:
    class Watched(RecomputationEngine):
        """What the profiler sees after each run in a backward."""

        def __init__(self) -> None:
            super().__init__(ROOM)
            self.seen: list[tuple[str, bool]] = []

        def again(self, call: Any, args: Any, kwargs: Any) -> Any:
            try:
                return super().again(call, args, kwargs)
            finally:
                self.seen.append((call.layer_id, call.is_retrieval))

    engine = Watched()
    step(checkpointed(engine, depth=1), rows(), backwards=2)
    assert engine.seen == [("0", False), ("0", True)]


def test_entries_go_with_their_graph() -> None:
    engine = RecomputationEngine(ROOM)
    loss = checkpointed(engine)(rows()).sum()
    loss.backward(retain_graph=True)
    assert engine.cache_info()[2:4] == (3 * TANH_BYTES, 3)
    del loss
    gc.collect()
    assert engine.cache_info()[2:4] == (0, 0)


def test_the_cache_is_bounded_and_the_longest_unused_goes_first() -> None:
    engine = RecomputationEngine(2 * TANH_BYTES)
    told: list[Any] = []
    engine.observers.append(lambda *event: told.append(event))
    loss = checkpointed(engine)(rows()).sum()
    loss.backward(retain_graph=True)
    info = engine.cache_info()
    assert (info.bytes, info.entries, info.evicted) == (2 * TANH_BYTES, 2, 1)
    # Backward came by 2, 1, 0, so 2 had to go. Now 2 takes the place of 1, 1 that of 0, and so on.
    loss.backward(retain_graph=True)
    assert told == []
    assert engine.cache_info().evicted == 4


def test_what_is_larger_than_the_cache_is_refused() -> None:
    engine = RecomputationEngine(TANH_BYTES - 1)
    step(checkpointed(engine), rows(), backwards=2)
    info = engine.cache_info()
    assert (info.hits, info.entries, info.refused) == (0, 0, 6)
    assert "it is too small (6 results did not fit at all" in engine.describe()


def test_weights_that_were_changed_since_make_an_entry_worthless() -> None:
    found = []
    engines = [RecomputationEngine(cache_bytes) for cache_bytes in (0, ROOM)]
    for engine in engines:
        made = checkpointed(engine)
        torch.manual_seed(2)
        loss = made(rows()).sum()
        loss.backward(retain_graph=True)
        with torch.no_grad():
            made[1][0].weight.add_(1.0)
        made.zero_grad()
        loss.backward()
        found.append([one.grad for one in made.parameters()])
    # As torch does without a cache: it computes with the weights of now.
    assert all(map(torch.equal, *found))
    assert engines[1].cache_info().hits == 2  # the other two blocks


def test_two_graphs_of_the_same_modules_are_kept_apart() -> None:
    given = [rows(), rows()]
    plain = model()
    expected = [torch.autograd.grad(plain(x).sum(), plain[0][0].weight)[0] for x in given]
    engine = RecomputationEngine(ROOM)
    made = checkpointed(engine)
    losses = [made(x).sum() for x in given]
    for at in (1, 0, 1, 0):
        (found,) = torch.autograd.grad(losses[at], made[0][0].weight, retain_graph=True)
        assert torch.equal(found, expected[at])
    assert engine.cache_info()[:2] == (6, 6)


def test_clearing_gives_the_memory_back_and_the_next_backward_computes_again() -> None:
    engine = RecomputationEngine(ROOM)
    loss = checkpointed(engine)(rows()).sum()
    loss.backward(retain_graph=True)
    engine.clear_cache()
    assert engine.cache_info()[2:4] == (0, 0)
    loss.backward()
    assert engine.cache_info()[:2] == (0, 6)


def test_an_engine_says_when_its_cache_gains_nothing() -> None:
    engine = RecomputationEngine(ROOM)
    assert engine.describe().startswith("The cache was never asked")
    made = checkpointed(engine)
    for _ in range(16):
        step(made, rows())
    assert engine.describe() == (
        "The cache was asked 48 times and never had the answer: each graph was used for one "
        "backward. It costs memory and gains nothing: leave it off. Nothing is recomputed ahead."
    )


def test_an_engine_says_how_often_its_cache_had_the_answer() -> None:
    engine = RecomputationEngine(ROOM)
    step(checkpointed(engine, depth=1), rows(), backwards=2)
    assert "asked 2 times and had the answer once" in engine.describe()


def test_without_a_cache_there_is_none() -> None:
    engine = RecomputationEngine()
    step(checkpointed(engine), rows())
    assert engine.cache_info() == (0, 0, 0, 0, 0, 0)
    assert engine.describe() == "There is no recompute cache. Nothing is recomputed ahead."


def test_without_early_stop_it_is_the_same() -> None:
    from torch.utils.checkpoint import set_checkpoint_early_stop

    x = rows()
    expected = step(model(), x, backwards=2)
    engine = RecomputationEngine(ROOM)
    with set_checkpoint_early_stop(False):
        found = step(checkpointed(engine), x, backwards=2)
    for name, gradient in found.gradients.items():
        assert torch.equal(gradient, expected.gradients[name])
    assert engine.cache_info()[:2] == (3, 3)


def test_a_hit_of_the_cache_is_no_recomputation_at_the_door() -> None:
    told: list[str] = []

    class Listener:
        def checkpointed(self, call: CheckpointCall, duration_ns: int) -> None:
            told.append("checkpointed")

        def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
            told.append("recomputed")

        def released(self, call: CheckpointCall) -> None: ...

    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Sigmoid())
    listener = Listener()
    manager = CheckpointManager(nn.Sequential(model), RecomputationEngine(cache_bytes=1 << 20))
    manager.checkpoint("0")
    door().add(listener)
    try:
        loss = model(torch.randn(2, 4)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    finally:
        door().remove(listener)
        manager.remove()

    assert told == ["checkpointed", "recomputed"]
    assert manager.engine.cache_info().hits == 1
