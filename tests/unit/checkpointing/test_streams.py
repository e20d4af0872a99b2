"""Recomputing ahead: the order of things, with streams that stand for a GPU's."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stepscope.checkpointing.engine import RecomputationEngine
from stepscope.checkpointing.manager import CheckpointManager
from stepscope.checkpointing.streams import CudaStreams, find_streams
from tests.unit.checkpointing.models import (
    CASES,
    Mlp,
    Nested,
    Transformer,
    assert_same,
    made,
    rows,
    step,
)


class AtOnce:
    """Runs what is beside the program at once, and remembers the order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.marks = 0

    @contextmanager
    def beside(self, inputs: Sequence[Any]) -> Iterator[None]:
        assert inputs
        self.log.append("begin")
        yield
        self.log.append("end")

    def mark(self) -> object:
        self.marks += 1
        self.log.append(f"mark {self.marks}")
        return self.marks

    def wait(self, mark: object, tensors: Sequence[Any]) -> None:
        assert tensors
        self.log.append(f"wait {mark}")


def logged(model: Transformer, streams: AtOnce) -> None:
    for at, block in enumerate(model.blocks):
        block.linear1.register_forward_hook(lambda *_, at=at: streams.log.append(f"block {at}"))


def test_the_segment_before_is_started_after_the_one_that_was_asked_for() -> None:
    model, given = made(CASES["a transformer with dropout"])
    assert isinstance(model, Transformer)
    streams = AtOnce()
    engine = RecomputationEngine(prefetch=True, streams=streams)
    CheckpointManager(model, engine).checkpoint("blocks.*")
    logged(model, streams)
    loss = model(given).sum()
    streams.log.clear()
    loss.backward()
    assert streams.log == [
        *("block 2", "begin", "block 1", "mark 1", "end"),  # asked for 2: 1 is started beside it
        *("wait 1", "begin", "block 0", "mark 2", "end"),  # asked for 1, which is ready: now 0
        "wait 2",
    ]
    assert engine.describe().endswith("2 segments were recomputed ahead, 2 of them used.")


def test_what_was_computed_ahead_is_the_same_to_the_bit() -> None:
    for name, case in CASES.items():
        model, given = made(case)
        expected = [step(model, given, backwards=2, seed=seed) for seed in (3, 4)]
        model, given = made(case)
        engine = RecomputationEngine(1 << 30, prefetch=True, streams=AtOnce())
        with CheckpointManager(model, engine).checkpoint(*case.names):
            for one, seed in zip(expected, (3, 4), strict=True):
                assert_same(step(model, given, backwards=2, seed=seed), one)
        assert engine.cache_info().hits > 0, name


def test_what_the_cache_has_is_not_started_again() -> None:
    streams = AtOnce()
    model, given = made(CASES["a transformer with dropout"])
    engine = RecomputationEngine(1 << 30, prefetch=True, streams=streams)
    CheckpointManager(model, engine).checkpoint("blocks.*")
    step(model, given, backwards=3)
    assert streams.marks == 2
    assert engine.cache_info()[:2] == (6, 1)


def test_autocast_and_random_numbers_are_those_of_its_forward() -> None:
    found = []
    for prefetch in (False, True):
        model, given = made(CASES["a transformer with dropout"])
        engine = RecomputationEngine(prefetch=prefetch, streams=AtOnce())
        CheckpointManager(model, engine).checkpoint("blocks.*")
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(given).float().square().sum()
        loss.backward()
        found.append([one.grad for one in model.parameters()] + [torch.rand(2)])
        assert ("2 segments were recomputed ahead" in engine.describe()) is prefetch
    assert all(map(torch.equal, *found))


def test_segments_inside_others_are_not_run_ahead() -> None:
    engine = RecomputationEngine(prefetch=True, streams=AtOnce())
    model = Nested()
    CheckpointManager(model, engine).checkpoint("groups.*", "groups.*.*")
    step(model, rows())
    assert "1 segment was recomputed ahead, 1 of them used" in engine.describe()


def test_a_graph_that_goes_before_its_backward_leaves_nothing_ahead() -> None:
    streams = AtOnce()
    engine = RecomputationEngine(prefetch=True, streams=streams)
    one, two = Mlp(), Mlp()
    for block in (one, two):
        CheckpointManager(block, engine).checkpoint("")
    hidden = one(rows())
    last = two(hidden.detach())  # backward ends before it comes to `one`
    last.sum().backward()
    assert streams.marks == 1
    assert engine._ahead is not None
    assert engine._ahead._ready is not None
    del hidden
    gc.collect()
    assert engine._ahead._ready is None


def test_a_failure_ahead_is_counted_and_changes_nothing() -> None:
    class Broken(AtOnce):
        def mark(self) -> object:
            raise RuntimeError("no such stream")

    model, given = made(CASES["a transformer with dropout"])
    expected = step(model, given)
    engine = RecomputationEngine(prefetch=True, streams=Broken())
    CheckpointManager(model, engine).checkpoint("blocks.*")
    assert_same(step(model, given), expected)
    assert "2 times it failed" in engine.describe()


def test_where_there_are_no_streams_nothing_runs_ahead_and_it_says_so() -> None:
    if find_streams() is not None:
        pytest.skip("there is a GPU: the other tests say what happens")
    engine = RecomputationEngine(prefetch=True)
    assert not engine.prefetches
    assert engine.describe().endswith("there is no device with streams here.")


class FakeCuda:
    """torch.cuda as far as it is used: who waits for whom, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.current = "main"

    def Stream(self, device: Any) -> Any:  # noqa: N802 - torch's name
        return self._stream("side", device)

    def _stream(self, name: str, device: Any) -> Any:
        return SimpleNamespace(
            name=name,
            device=device,
            wait_stream=lambda other: self.log.append(f"{name} waits for {other.name}"),
            wait_event=lambda event: self.log.append(f"{name} waits for {event.where}"),
        )

    def current_stream(self, device: Any) -> Any:
        return self._stream(self.current, device)

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before

    def Event(self) -> Any:  # noqa: N802 - torch's name
        event = SimpleNamespace(where="nowhere")
        event.record = lambda: setattr(event, "where", f"an event of {self.current}")
        return event

    def tensor(self, name: str) -> Any:
        return SimpleNamespace(
            is_cuda=True,
            device="cuda:0",
            record_stream=lambda stream: self.log.append(f"{name} is used by {stream.name}"),
        )


def test_on_a_gpu_each_side_waits_for_the_other_and_tells_the_allocator() -> None:
    cuda = FakeCuda()
    streams = CudaStreams(cuda)
    with streams.beside([cuda.tensor("input"), torch.zeros(1)]):
        cuda.log.append(f"work on {cuda.current}")
        mark = streams.mark()
    streams.wait(mark, [cuda.tensor("result"), torch.zeros(1)])
    assert cuda.log == [
        "side waits for main",
        "input is used by side",
        "work on side",
        "main waits for an event of side",
        "result is used by main",
    ]
