from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from stepscope.session.optimizing_process import (
    Switch,
    free_memory,
    optimize_gpu,
    optimize_switch,
    thread_switch,
    work_s,
)


class Threads:
    """A setting, and work that takes as long as it says."""

    def __init__(self, now: int, times_s: dict[int, float]) -> None:
        self.now, self.times_s, self.calls = now, times_s, 0
        self.switch = Switch("set_threads", lambda: self.now, self.set, list(times_s))

    def set(self, threads: int) -> None:
        self.now = threads

    def work(self) -> None:
        self.calls += 1

    def timed(self, work: Any) -> float:
        work()
        return self.times_s[self.now]


def test_the_fastest_choice_is_kept_and_can_be_undone() -> None:
    threads = Threads(4, {1: 1.0, 2: 0.5, 4: 2.0})
    record, undo = optimize_switch("cpu", threads.switch, threads.work, threads.timed)
    assert threads.now == 2
    assert record.kept
    assert record.change == "set_threads(2)"
    assert record.measured is not None
    assert record.measured.middle == pytest.approx(4.0)
    assert record.before == {"work_s": 2.0}
    assert record.after == {"work_s": 0.5}
    assert undo is not None
    undo()
    assert threads.now == 4


def test_where_the_present_choice_is_the_fastest_it_stays() -> None:
    threads = Threads(2, {1: 1.0, 2: 0.5})
    record, undo = optimize_switch("cpu", threads.switch, threads.work, threads.timed)
    assert (threads.now, record.kept, undo) == (2, False, None)
    assert "set_threads(2) is the fastest" in record.reason


def test_a_gain_too_small_to_matter_is_put_back() -> None:
    threads = Threads(2, {1: 0.98, 2: 1.0})
    record, undo = optimize_switch("cpu", threads.switch, threads.work, threads.timed)
    assert (threads.now, record.kept, undo) == (2, False, None)
    assert "Not proved" in record.reason


def test_work_that_fails_leaves_everything_as_it_was() -> None:
    threads = Threads(2, {1: 0.5, 2: 1.0})

    def broken() -> None:
        raise OSError("the disk is gone")

    record, undo = optimize_switch("cpu", threads.switch, broken, threads.timed)
    assert (threads.now, record.kept, undo) == (2, False, None)
    assert "the disk is gone" in record.reason


def test_without_work_nothing_is_measured_or_changed() -> None:
    threads = Threads(2, {1: 0.5, 2: 1.0})
    record, _ = optimize_switch("cpu", threads.switch, None, threads.timed)
    assert threads.now == 2
    assert "Not measured, so nothing was changed" in record.reason


def test_the_threads_of_torch_are_a_switch() -> None:
    switch = thread_switch()
    assert switch is not None
    before = switch.read()
    assert before == torch.get_num_threads()
    assert 1 in switch.choices
    switch.write(before)


def test_without_torch_there_is_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert thread_switch() is None
    record, _ = optimize_switch("cpu", None, lambda: None, work_s)
    assert "torch is not imported" in record.reason


def test_work_is_called_some_times() -> None:
    threads = Threads(1, {1: 1.0})
    assert work_s(threads.work) >= 0
    assert threads.calls == 3


def made_torch(available: bool) -> Any:
    cudnn = SimpleNamespace(benchmark=False)
    cuda = SimpleNamespace(is_available=lambda: available, is_initialized=lambda: False)
    return SimpleNamespace(
        backends=SimpleNamespace(cudnn=cudnn),
        cuda=cuda,
        get_rng_state=lambda: 0,
        set_rng_state=lambda _: None,
        utils=SimpleNamespace(data=SimpleNamespace(DataLoader=DataLoader)),
    )


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", made_torch(available=False))
    record, undo = optimize_gpu(lambda: None)
    assert undo is None
    assert record.reason == "There is no GPU that torch can use: nothing was changed."


def test_on_a_gpu_the_choice_of_cudnn_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_ = made_torch(available=True)
    monkeypatch.setitem(sys.modules, "torch", torch_)
    cudnn = torch_.backends.cudnn
    record, undo = optimize_gpu(lambda: None, lambda work: 0.5 if cudnn.benchmark else 1.0)
    chosen = cudnn.benchmark
    assert record.kept, record.reason
    assert undo is not None
    undo()
    assert (chosen, cudnn.benchmark) == (True, False)
    assert "nothing was changed" in optimize_gpu(None)[0].reason


@pytest.fixture
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_thawed")
def test_objects_are_frozen_where_that_makes_collections_faster() -> None:
    record, undo = free_memory(lambda: 0.1 if gc.get_freeze_count() else 1.0)
    assert record.kept
    assert gc.get_freeze_count() > 0
    assert record.before["collection_s"] == 1.0
    assert record.after["collection_s"] == 0.1
    assert record.before["rss_bytes"] > 0
    assert undo is not None
    undo()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("_thawed")
def test_where_collections_are_no_faster_nothing_is_frozen() -> None:
    record, undo = free_memory(lambda: 1.0)
    assert (record.kept, undo, gc.get_freeze_count()) == (False, None, 0)


@pytest.mark.usefixtures("_thawed")
def test_what_the_program_froze_itself_is_left_alone() -> None:
    gc.freeze()
    record, undo = free_memory(lambda: 1.0)
    assert undo is None
    assert "frozen already" in record.reason
    assert gc.get_freeze_count() > 0
