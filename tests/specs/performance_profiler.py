"""The blocks of specification 002, the performance profiler."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import stepscope
from tests.specs.case import Case, Names

__all__ = ["CASES"]

MB = 2**20
_NAP_S = 0.02


def slept(seconds: float, wanted: float) -> bool:
    """Sleeping takes a little longer than asked for, on a busy machine much longer."""
    return wanted <= seconds < wanted + 1.0


# ---- main methods ----


class Estimator:
    def fit(self, x: object, y: object) -> None:
        time.sleep(_NAP_S)


def a_model_to_fit() -> dict[str, Any]:
    return {"model": Estimator(), "X_train": [[1.0]], "y_train": [1.0]}


def the_fit_was_measured(names: Names, printed: str) -> None:
    metrics = names["profiler"].get_metrics("training_loop")
    assert metrics.calls == 1
    assert slept(metrics.timing.wall_time_s, _NAP_S)


def a_profiler_that_ran() -> dict[str, Any]:
    profiler = stepscope.PerformanceProfiler()
    with profiler.profile("load"):
        time.sleep(_NAP_S)
    with profiler.profile("train"):
        time.sleep(2 * _NAP_S)
    return {"profiler": profiler}


def metrics_are_of_the_last_operation(names: Names, printed: str) -> None:
    metrics = names["metrics"]
    assert metrics.operation == "train"
    assert printed == f"Peak RAM: {metrics.memory.peak_ram_mb} MB\n"
    assert 10 < metrics.memory.peak_ram_mb < 100_000


def a_profiler() -> dict[str, Any]:
    return {"profiler": stepscope.PerformanceProfiler()}


def it_is_what_the_kernel_says(names: Names, printed: str) -> None:
    status = Path("/proc/self/status").read_text("utf-8")
    (kib,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert abs(names["current_ram"] - int(kib) / 1024) < 20


def both_operations_are_listed(names: Names, printed: str) -> None:
    times = dict(line.split(": ") for line in printed.splitlines())
    assert list(times) == ["load", "train"]
    assert slept(float(times["load"].rstrip("s")), _NAP_S)
    assert slept(float(times["train"].rstrip("s")), 2 * _NAP_S)


def metrics_of_a_run() -> dict[str, Any]:
    return {"metrics": a_profiler_that_ran()["profiler"].get_metrics()}


def it_can_be_written_as_json_and_read_back(names: Names, printed: str) -> None:
    saved = json.loads(json.dumps(names["metrics_dict"]))
    assert saved["timing"]["wall_time_s"] == names["metrics"].timing.wall_time_s
    assert set(saved) >= {"memory", "timing", "compute", "system"}
    assert stepscope.PerformanceMetrics.from_dict(saved) == names["metrics"]


def it_reads_like_the_one_in_the_document(names: Names, printed: str) -> None:
    assert re.fullmatch(
        r"Peak RAM: [\d.]+ [MG]B, Wall Time: [\d.]+m?s, (GPU|CPU) Util: \d+%\n", printed
    )


# ---- usage examples ----


def an_epoch() -> dict[str, Any]:
    return {"train_epoch": lambda: time.sleep(0.015)}


def ten_epochs_were_measured(names: Names, printed: str) -> None:
    assert slept(names["metrics"].timing.wall_time_s, 0.15)
    assert re.fullmatch(
        r"Training completed in 0\.\ds\nPeak memory usage: \d+\.\d MB\n", printed
    ), printed


class OnNoGpu(list[float]):
    """There is no GPU here: moving to it leaves things where they are."""

    def cuda(self) -> OnNoGpu:
        return self

    def __call__(self, batch: OnNoGpu) -> list[float]:
        return [2 * value for value in batch]


def a_large_model_and_batches() -> dict[str, Any]:
    return {"LargeModel": OnNoGpu, "dataloader": [OnNoGpu([1.0, 2.0]), OnNoGpu([3.0])]}


def without_a_gpu_nothing_is_made_up(names: Names, printed: str) -> None:
    assert names["output"] == [6.0]
    if names["gpu_metrics"].memory.peak_gpu_mb is None:
        assert printed == "Peak GPU memory: None MB\n"
        assert any("GPU" in note for note in names["gpu_metrics"].notes)
    else:
        assert names["gpu_metrics"].memory.peak_gpu_mb >= 0


def three_stages() -> dict[str, Any]:
    def load_dataset() -> list[int]:
        time.sleep(0.06)
        return [1, 2]

    def preprocess(data: list[int]) -> list[int]:
        time.sleep(0.03)
        return [2 * value for value in data]

    def train_model(data: list[int]) -> int:
        time.sleep(0.09)
        return sum(data)

    return {"load_dataset": load_dataset, "preprocess": preprocess, "train_model": train_model}


def the_shares_add_up(names: Names, printed: str) -> None:
    assert names["model"] == 6
    heading, *lines = printed.splitlines()
    assert heading == "Operation breakdown:"
    found = [re.fullmatch(r"  (\w+): ([\d.]+)s \(([\d.]+)%\)", line) for line in lines]
    rows = [row.groups() for row in found if row]
    assert [name for name, _, _ in rows] == ["data_loading", "preprocessing", "training"]
    assert abs(sum(float(share) for _, _, share in rows) - 100) < 0.2
    assert float(rows[2][1]) > float(rows[0][1]) > float(rows[1][1])


def data_that_is_never_let_go() -> dict[str, Any]:
    kept: list[bytearray] = []

    def process_data(data: bytearray) -> None:
        kept.append(data)
        time.sleep(0.01)

    return {"allocate_data": lambda: bytearray(b"x" * MB), "process_data": process_data}


def the_leak_is_found(names: Names, printed: str) -> None:
    memory = names["metrics"].memory
    assert memory.memory_leak_detected is True
    assert 90 < memory.final_ram_mb - memory.initial_ram_mb < 130  # 100 times 1 MB
    assert "Potential memory leak detected" in printed
    assert f"Memory grew from {memory.initial_ram_mb}MB to {memory.final_ram_mb}MB" in printed


def the_flops_are_those_of_two_layers(names: Names, printed: str) -> None:
    by_hand = 2 * 32 * 784 * 512 + 2 * 32 * 512 * 10  # a multiplication and an addition each
    assert names["compute_metrics"].estimated_flops == by_hand
    assert printed.startswith(f"Estimated FLOPs: {by_hand:,}\nFLOPS per second: ")
    assert names["compute_metrics"].flops_per_second > 0


# ---- error handling and best practices ----


def something_that_fails() -> dict[str, Any]:
    def risky_operation() -> None:
        time.sleep(_NAP_S)
        raise OSError("the disk is gone")

    return {"risky_operation": risky_operation}


def what_was_measured_up_to_the_error_is_there(names: Names, printed: str) -> None:
    assert "Operation failed: the disk is gone\nPartial timing: 0.0" in printed
    metrics = names["partial_metrics"]
    assert slept(metrics.timing.wall_time_s, _NAP_S)
    assert metrics.is_partial
    assert metrics.failed_calls == 1


def the_last_profiler_can_be_used(names: Names, printed: str) -> None:
    with names["profiler"].profile("work"):
        time.sleep(_NAP_S)
    assert slept(names["profiler"].get_metrics().timing.wall_time_s, _NAP_S)


def a_small_model() -> dict[str, Any]:
    return a_profiler() | {"model": lambda batch: [2 * x for x in batch], "input_batch": [1, 2]}


def each_name_is_an_operation(names: Names, printed: str) -> None:
    assert names["output"] == [2, 4]
    assert list(names["profiler"].get_timing_breakdown()) == ["resnet50_forward_pass", "operation"]


def a_small_network() -> dict[str, Any]:
    import torch
    from torch import nn

    network = nn.Sequential(nn.Conv2d(3, 2, 7, stride=32), nn.Flatten(), nn.Linear(98, 5))
    return a_profiler() | {"torch": torch, "model": network}


def inference_was_measured(names: Names, printed: str) -> None:
    assert tuple(names["predictions"].shape) == (128, 5)
    metrics = names["profiler"].get_metrics("production_inference")
    assert metrics.timing.cpu_time_s > 0
    # The batch alone is 128 · 3 · 224 · 224 numbers of 4 bytes.
    grew = metrics.memory.peak_ram_mb - metrics.memory.initial_ram_mb
    assert grew > 0.9 * 128 * 3 * 224 * 224 * 4 / MB


CASES: dict[str, Case] = {
    "profile(operation_name: str)": Case(the_fit_was_measured, a_model_to_fit),
    "get_metrics(operation_name: Optional[str] = None) → PerformanceMetrics": Case(
        metrics_are_of_the_last_operation, a_profiler_that_ran
    ),
    "get_current_memory() → float": Case(it_is_what_the_kernel_says, a_profiler),
    "get_timing_breakdown() → Dict[str, float]": Case(
        both_operations_are_listed, a_profiler_that_ran
    ),
    "to_dict() → Dict[str, Any]": Case(it_can_be_written_as_json_and_read_back, metrics_of_a_run),
    "summary() → str": Case(it_reads_like_the_one_in_the_document, metrics_of_a_run),
    "Basic Performance Profiling": Case(ten_epochs_were_measured, an_epoch),
    "GPU Memory Monitoring": Case(without_a_gpu_nothing_is_made_up, a_large_model_and_batches),
    "Multi-Operation Profiling": Case(the_shares_add_up, three_stages),
    "Memory Leak Detection": Case(the_leak_is_found, data_that_is_never_let_go),
    "FLOPS Estimation": Case(the_flops_are_those_of_two_layers),
    "Error Handling": Case(what_was_measured_up_to_the_error_is_there, something_that_fails),
    "1. Use appropriate sampling intervals": Case(the_last_profiler_can_be_used),
    "2. Enable GPU tracking only when needed": Case(the_last_profiler_can_be_used),
    "3. Use descriptive operation names": Case(each_name_is_an_operation, a_small_model),
    "4. Profile representative workloads": Case(inference_was_measured, a_small_network),
}
