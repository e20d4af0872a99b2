"""The blocks of specification 003 about AdvancedProfiler, CodeOptimizer and their results."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

from stepscope import AdvancedProfiler, PerformanceMetrics, ProfilingConfig
from tests.specs.case import Case, Names

__all__ = ["CASES"]

PARTS = ("cpu", "gpu", "data", "combined")


def a_configuration() -> dict[str, Any]:
    return {"config": ProfilingConfig()}


def everything_is_in_the_results(names: Names, printed: str) -> None:
    results = names["results"]
    assert set(results) == {*PARTS, "bottlenecks", "suggestions"}
    assert results["combined"].execution_time > 0
    assert json.loads(json.dumps(names["summary"], allow_nan=False))["profiled"] == 1


# ---- optimising ----


def a_loader_that_cannot_be_faster() -> Any:
    """A pass of two batches: too few to measure, so that this takes no time."""
    import torch

    return torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4)


def a_profiler_a_loader_and_a_function() -> dict[str, Any]:
    import torch

    def preprocessing_func(data: torch.Tensor) -> torch.Tensor:
        return data.float() / 255.0

    profiler = AdvancedProfiler()
    profiler.profile_preprocessing(preprocessing_func, torch.arange(12))
    return {
        "profiler": profiler,
        "dataloader": a_loader_that_cannot_be_faster(),
        "preprocessing_func": preprocessing_func,
    }


def each_was_tried_and_told(names: Names, printed: str) -> None:
    import torch

    assert names["optimized_dataloader"] is names["dataloader"]
    data = torch.arange(12)
    wanted = names["preprocessing_func"](data)
    assert torch.allclose(names["optimized_preprocessing"](data), wanted)
    report = json.loads(json.dumps(names["report"], allow_nan=False))
    loading, preprocessing = report["optimizations"]
    assert "too few to measure" in loading["reason"]
    assert preprocessing["tried"]["as it is"] > 0


class Numbers:
    """A dataset, quick to read."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: int) -> int:
        return at


def a_dataset_and_data() -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    return {
        "create_dataset": Numbers,
        "DataLoader": torch.utils.data.DataLoader,
        "test_data": torch.randint(0, 255, (16, 3, 8, 8)),
    }


def the_optimised_give_the_same(names: Names, printed: str) -> None:
    import torch

    batches = []
    for loader in (names["dataloader"], names["optimized_dataloader"]):
        torch.manual_seed(1)
        batches.append(torch.cat(list(loader)))
    assert torch.equal(*batches)
    assert sorted(batches[0].tolist()) == list(range(1000))
    data = names["test_data"]
    ours, theirs = names["optimized_preprocessing"](data), names["preprocessing_func"](data)
    assert torch.allclose(ours, theirs)

    summary = json.loads(json.dumps(names["summary"], allow_nan=False))
    assert len(summary["dataloaders"]) == len(summary["preprocessing"]) == 1
    report = json.loads(json.dumps(names["optimization_report"], allow_nan=False))
    targets = [one["target"] for one in report["optimizations"]]
    assert targets == ["data loading", "preprocessing"], "by itself, and not once more"
    is_other = names["optimized_dataloader"] is not names["dataloader"]
    assert report["optimizations"][0]["kept"] == is_other
    assert all(one["reason"] for one in report["optimizations"])


# ---- training ----


class Log:
    """A logger as structlog has it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, text: str, **values: Any) -> None:
        self.lines.append((text, values))


def a_training() -> dict[str, Any]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def training_step(model: nn.Module, batch: torch.Tensor, optimizer: object) -> float:
        """The document calls its CodeOptimizer by the name of the training's own."""
        sgd.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        sgd.step()
        return float(loss.item())

    return {
        "num_epochs": 2,
        "dataloader": torch.utils.data.DataLoader(torch.randn(24, 8), batch_size=4),
        "model": model,
        "training_step": training_step,
        "logger": Log(),
    }


def epochs_and_the_whole_were_measured(names: Names, printed: str) -> None:
    final, epoch = names["final_results"], names["epoch_results"]
    assert final["data"].calls == 12, "two epochs of six batches"
    assert epoch["data"].calls == 5, "the last epoch, from its second step on"
    assert epoch["combined"].execution_time < final["combined"].execution_time
    texts = [text for text, _ in names["logger"].lines]
    assert [text.split(":")[0] for text in texts if text.startswith("Epoch")] == [
        "Epoch 0 profiling",
        "Epoch 1 profiling",
    ]
    report = names["optimizer"].get_optimization_report()
    assert [one["target"] for one in report["optimizations"]] == ["memory", "cpu"]
    names["optimizer"].undo()


def a_manager_of_mixed_precision() -> dict[str, Any]:
    """The document imports another project's; ours is an example on torch's own."""
    import torch

    from examples import mixed_precision

    module: Any = types.ModuleType("advanced_mixed_precision_training")
    module.AdvancedMixedPrecisionManager = mixed_precision.MixedPrecisionManager
    sys.modules[module.__name__] = module
    model = torch.nn.Linear(8, 1)
    return {
        "MixedPrecisionConfig": mixed_precision.MixedPrecisionConfig,
        "num_epochs": 2,
        "dataloader": torch.utils.data.DataLoader(mixed_precision.make_data(24), batch_size=4),
        "model": model.to(mixed_precision.MixedPrecisionConfig().device),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "logger": Log(),
    }


def every_epoch_is_logged_with_its_precision(names: Names, printed: str) -> None:
    (first, _), (second, values) = names["logger"].lines
    assert first == second == "Epoch complete"
    assert values["epoch"] == 1
    assert values["precision_mode"] in ("bfloat16", "float16")
    assert values["execution_time"] > 0
    assert values["loss"] >= 0
    assert names["profiling_results"]["data"].calls == 6


# ---- results ----


def a_profiler_that_runs() -> dict[str, Any]:
    profiler = AdvancedProfiler()
    profiler.start_profiling()
    return {"profiler": profiler}


def each_part_is_printed(names: Names, printed: str) -> None:
    lines = printed.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "CPU Metrics",
        "GPU Metrics",
        "Data Metrics",
        "Bottlenecks",
        "Suggestions",
    ]
    assert all(isinstance(names["results"][part], PerformanceMetrics) for part in PARTS)


CASES: dict[str, Case] = {
    "4. AdvancedProfiler": Case(everything_is_in_the_results, a_configuration),
    "5. CodeOptimizer": Case(each_was_tried_and_told, a_profiler_a_loader_and_a_function),
    "Basic Profiling": Case(the_optimised_give_the_same, a_dataset_and_data),
    "Advanced Training Profiling": Case(epochs_and_the_whole_were_measured, a_training),
    "Combined Profiling and Optimization": Case(
        every_epoch_is_logged_with_its_precision, a_manager_of_mixed_precision
    ),
    "2. Performance Analysis": Case(each_part_is_printed, a_profiler_that_runs),
}
