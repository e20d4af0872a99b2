"""torch's own profiler over a few steps, folded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from stepscope.collect import operators
from stepscope.collect.operator_times import fold_events
from stepscope.collect.operators import OperatorsCollector, Plan
from stepscope.collect.steps import StepsCollector
from stepscope.model import names, traits
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started
from tests.unit.collect.sampling import folded, train

PLAN = Plan(steps=3, first=2, share=1e9, devices=True)


class Event:
    """As torch's profiler gives them."""

    def __init__(
        self, name: str, start: int, end: int, thread: int = 1, device: str = "cpu"
    ) -> None:
        self._name, self._start, self._end = name, start, end
        self._thread, self._device = thread, device

    def name(self) -> str:
        return self._name

    def start_ns(self) -> int:
        return self._start

    def duration_ns(self) -> int:
        return self._end - self._start

    def start_thread_id(self) -> int:
        return self._thread

    def device_type(self) -> str:
        return self._device


@pytest.fixture
def profiled(started: Started) -> OperatorsCollector:
    collector = OperatorsCollector(PLAN)
    started(StepsCollector(at_step=collector.after_step))
    started(collector)
    return collector


def rows() -> tuple[torch.Tensor]:
    return (torch.randn(4, 8),)


def test_self_time_is_without_what_is_inside() -> None:
    found = fold_events([
        Event("autograd::engine::evaluate_function: MmBackward0", 0, 100),
        Event("MmBackward0", 10, 90),
        Event("aten::mm", 20, 60),
        Event("aten::empty", 30, 35),
        Event("aten::mm", 200, 210),
        Event("aten::mm", 25, 45, thread=2),
        Event("gemm_kernel", 0, 7, thread=9, device="cuda"),
    ], "cpu")  # fmt: skip

    times = {name: (one.calls, one.self_ns) for name, one in found.operators.items()}
    assert times == {
        "autograd::engine::evaluate_function: MmBackward0": (1, 20),
        "MmBackward0": (1, 40),
        "aten::mm": (3, 65),
        "aten::empty": (1, 5),
        "gemm_kernel": (1, 7),
    }
    assert (found.outermost, found.median_ns) == (3, 20)


def test_the_operators_of_three_steps_are_told(
    profiled: OperatorsCollector, recorder: Recorder, tmp_path: Path
) -> None:
    train(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), rows, 8)
    found = folded(recorder, tmp_path / "all.frames")

    assert recorder.failures == {}
    assert found.op_steps == 3
    assert len(found.ops) <= operators.TOP
    by_name = {op.name: op for op in found.ops}
    assert by_name["aten::addmm"].calls == 2
    assert all(op.self_ms >= 0 for op in found.ops)
    assert found.traits[traits.OPS_PER_STEP]["ops"] > 10
    assert 0 < found.traits[traits.OPS_PER_STEP]["median_us"] < 1000
    assert not torch.autograd._profiler_enabled()


def test_a_profiler_of_the_programs_own_comes_first(
    profiled: OperatorsCollector, recorder: Recorder, read: Read
) -> None:
    model = nn.Linear(8, 8)
    train(model, rows, 3)
    assert torch.autograd._profiler_enabled()  # ours

    with torch.profiler.profile() as theirs:
        train(model, rows, 3)

    assert "aten::addmm" in {event.key for event in theirs.key_averages()}
    assert read(names.OP) == []
    assert recorder.failures == {}


def test_ours_does_not_begin_while_theirs_runs(profiled: OperatorsCollector, read: Read) -> None:
    with torch.profiler.profile() as theirs:
        train(nn.Linear(8, 8), rows, 8)
        assert read(names.OP) == []

    assert "aten::addmm" in {event.key for event in theirs.key_averages()}


def test_stopping_ends_it(started: Started) -> None:
    collector = OperatorsCollector(PLAN)
    steps = started(StepsCollector(at_step=collector.after_step))
    started(collector)
    train(nn.Linear(8, 8), rows, 3)
    assert torch.autograd._profiler_enabled()

    collector.stop()

    assert not torch.autograd._profiler_enabled()
    assert steps


def test_nothing_is_said_on_stderr(
    profiled: OperatorsCollector, capfd: pytest.CaptureFixture[str]
) -> None:
    train(nn.Linear(8, 8), rows, 8)

    assert capfd.readouterr().err == ""


def test_without_a_plan_nothing_happens(started: Started, read: Read) -> None:
    collector = OperatorsCollector(None)
    started(StepsCollector(at_step=collector.after_step))
    started(collector)
    train(nn.Linear(8, 8), rows, 8)

    assert read(names.OP) == []


def test_an_error_ends_it_and_is_counted(
    profiled: OperatorsCollector, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(operators, "fold_events", fails)
    train(nn.Linear(8, 8), rows, 12)

    assert recorder.failures == {"operators": 1}
    assert not torch.autograd._profiler_enabled()
