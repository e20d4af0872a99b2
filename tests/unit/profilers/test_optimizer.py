from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from stepscope import AdvancedProfiler, CodeOptimizer, ProfilingConfig, UsageError
from stepscope.model.optimization import Optimization, StepCosts
from stepscope.session import optimizing
from stepscope.session.optimizing_process import Switched

LOADER = DataLoader(torch.zeros(8, 2), batch_size=2)


def double(data: Any) -> Any:
    return data * 2


class Engine:
    """In the place of what takes time: everything is twice as fast, and asked for once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.steps: list[StepCosts | None] = []
        self.samples: list[int] = []
        self.undone: list[str] = []

    def loader(self, loader: Any, config: Any, step: StepCosts | None) -> Any:
        self.asked.append("loader")
        self.steps.append(step)
        return ["a faster loader"], Optimization(target="data loading", kept=True)

    def function(self, function: Callable[[Any], Any], samples: Any) -> Any:
        self.asked.append("function")
        self.samples.append(len(samples))
        if not samples:
            return function, Optimization(target="preprocessing", reason="no sample")
        return partial(function), Optimization(target="preprocessing", kept=True)

    def memory(self) -> Switched:
        self.asked.append("memory")
        return Switched(Optimization(target="memory"), lambda: self.undone.append("memory"))

    def switch(self, target: str, switch: Any, work: Any, timed: Any) -> Switched:
        self.asked.append(target)
        if work is not None:
            work()
        undo = None if work is None else (lambda: self.undone.append(target))
        return Switched(Optimization(target=target, kept=work is not None), undo)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(optimizing, "optimize_loader", made.loader)
    monkeypatch.setattr(optimizing, "optimize_function", made.function)
    monkeypatch.setattr(optimizing, "free_memory", made.memory)
    monkeypatch.setattr(optimizing, "optimize_switch", made.switch)
    return made


def test_a_loader_is_optimised_once_and_beside_the_step_that_was_seen(engine: Engine) -> None:
    profiler = AdvancedProfiler()
    optimizer = CodeOptimizer(profiler)
    profiler.seen.step = StepCosts(0.1, 0.1)
    made = optimizer.optimize_data_loading(LOADER)
    assert made == ["a faster loader"]
    assert optimizer.optimize_data_loading(LOADER) is made
    assert optimizer.optimize_data_loading(made) is made, "it is optimised already"
    assert engine.asked == ["loader"]
    assert engine.steps == [StepCosts(0.1, 0.1)]


def test_a_function_is_optimised_again_when_there_is_another_sample(engine: Engine) -> None:
    profiler = AdvancedProfiler()
    optimizer = CodeOptimizer(profiler)
    assert optimizer.optimize_preprocessing(double) is double, "there is no sample yet"
    profiler.profile_preprocessing(double, torch.ones(3))
    made = optimizer.optimize_preprocessing(double)
    assert made is not double
    assert optimizer.optimize_preprocessing(double) is made
    assert optimizer.optimize_preprocessing(made) is made
    profiler.profile_preprocessing(double, torch.zeros(3))
    optimizer.optimize_preprocessing(double)
    assert engine.samples == [0, 1, 2]


def test_the_work_for_the_cpu_is_what_was_given_or_profiled(engine: Engine) -> None:
    profiler = AdvancedProfiler()
    optimizer = CodeOptimizer(profiler)
    assert not optimizer.optimize_cpu().kept, "nothing to measure"
    calls: list[Any] = []
    assert optimizer.optimize_cpu(lambda: calls.append(1)).kept
    assert calls == [1]
    profiler.profile_preprocessing(double, torch.ones(3))
    assert optimizer.optimize_cpu().kept


def test_threads_are_not_chosen_for_functions_where_training_ran(engine: Engine) -> None:
    profiler = AdvancedProfiler()
    optimizer = CodeOptimizer(profiler)
    profiler.profile_preprocessing(double, torch.ones(3))
    profiler.seen.step = StepCosts(0.1, 0.1)
    record = optimizer.optimize_cpu()
    assert "A training loop was seen" in record.reason
    assert engine.asked == []


def test_undo_goes_back_from_the_last_change_to_the_first(engine: Engine) -> None:
    optimizer = CodeOptimizer(AdvancedProfiler())
    optimizer.optimize_memory()
    optimizer.optimize_cpu(lambda: None)
    optimizer.undo()
    optimizer.undo()
    assert engine.undone == ["cpu", "memory"]


def test_the_report_has_everything_in_plain_json(engine: Engine) -> None:
    optimizer = CodeOptimizer(AdvancedProfiler())
    optimizer.optimize_data_loading(LOADER)
    optimizer.optimize_preprocessing(double)
    optimizer.optimize_gpu()
    report = json.loads(json.dumps(optimizer.get_optimization_report(), allow_nan=False))
    assert (report["enabled"], report["auto_optimize"], report["kept"]) == (True, False, 1)
    targets = [one["target"] for one in report["optimizations"]]
    assert targets == ["data loading", "preprocessing", "gpu"]
    assert report["text"][1] == "preprocessing: as it was. no sample"


def test_by_itself_it_optimises_what_is_profiled(engine: Engine) -> None:
    profiler = AdvancedProfiler(ProfilingConfig(auto_optimize=True))
    optimizer = CodeOptimizer(profiler)
    profiler.profile_dataloader(LOADER, 2)
    profiler.profile_preprocessing(double, torch.ones(3))
    for _ in range(2):
        profiler.start_profiling()
        profiler.stop_profiling()
    assert engine.asked == ["loader", "function", "memory", "cpu"], "the process once only"
    assert optimizer.optimize_data_loading(LOADER) == ["a faster loader"]


def test_an_optimizer_that_nobody_has_is_not_told(engine: Engine) -> None:
    profiler = AdvancedProfiler(ProfilingConfig(auto_optimize=True))
    CodeOptimizer(profiler)
    gc.collect()
    profiler.profile_dataloader(LOADER, 2)
    assert engine.asked == []


def test_switched_off_nothing_is_touched(engine: Engine) -> None:
    optimizer = CodeOptimizer(AdvancedProfiler(ProfilingConfig(enabled=False, auto_optimize=True)))
    optimizer.profiler.profile_dataloader(LOADER, 2)
    assert optimizer.optimize_data_loading(LOADER) is LOADER
    assert optimizer.optimize_preprocessing(double) is double
    for record in (
        optimizer.optimize_memory(),
        optimizer.optimize_cpu(),
        optimizer.optimize_gpu(),
    ):
        assert "switched off" in record.reason
    assert engine.asked == []
    assert optimizer.get_optimization_report()["enabled"] is False


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="AdvancedProfiler"):
        CodeOptimizer(ProfilingConfig())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="function"):
        CodeOptimizer(AdvancedProfiler()).optimize_preprocessing(3)  # type: ignore[arg-type]
