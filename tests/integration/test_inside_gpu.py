"""Profilers on a machine with GPUs: pynvml on a driver of our own, and torch.cuda as far as it is
asked. No GPU is at hand where these tests run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, math, sys, time
import torch

class Cuda:
    '''What is asked of torch.cuda: one GPU of 16 GiB whose peak counts from the last reset.'''
    peak = 0
    initialized = False
    def is_available(self): return True
    def is_initialized(self): return self.initialized
    def device_count(self): return 1
    def max_memory_allocated(self, device): return self.peak
    def memory_reserved(self, device): return self.peak
    def memory_allocated(self, device): return 0
    def reset_peak_memory_stats(self, device): Cuda.peak = 64 << 20
    def mem_get_info(self): return (4 << 30, 16 << 30)

torch.cuda = Cuda()
from stepscope import GPUProfiler, PerformanceProfiler, ProfilingConfig

profiler = PerformanceProfiler(track_gpu=True, track_carbon=True, country="FR")
with profiler.profile("first"):
    Cuda.initialized = True
    Cuda.peak = 3 << 30
    time.sleep(0.05)
with profiler.profile("second"):
    Cuda.peak = 1 << 30
    time.sleep(0.05)
blocks = GPUProfiler(ProfilingConfig(gpu_threshold=60.0, memory_threshold=10.0))
blocks.start_profiling()
Cuda.peak = 2 << 30
time.sleep(0.05)
metrics = blocks.stop_profiling()
print(json.dumps({
    "first": profiler.get_metrics("first").to_dict(),
    "second": profiler.get_metrics("second").to_dict(),
    "block": metrics.to_dict(),
    "bottlenecks": [[f.kind, f.title] for f in blocks.get_bottlenecks()],
    "now": profiler.get_current_gpu_memory(),
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    compiler = shutil.which("gcc") or pytest.skip("there is no compiler to build the stand-in with")
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parents[1] / "standins" / "nvml.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_peak_of_the_allocator_belongs_to_the_operation_in_which_it_was(
    told: dict[str, Any],
) -> None:
    assert told["first"]["memory"]["peak_gpu_mb"] == pytest.approx(3 * 1024)
    assert told["second"]["memory"]["peak_gpu_mb"] == pytest.approx(1024)
    assert told["block"]["memory"]["peak_gpu_mb"] == pytest.approx(2 * 1024)


def test_utilisation_is_what_the_driver_says_of_the_gpu_that_is_used(told: dict[str, Any]) -> None:
    assert told["block"]["compute"]["gpu_utilization_percent"] == pytest.approx(50.0)
    assert told["block"]["gpu_time"] == pytest.approx(told["block"]["execution_time"] / 2)


def test_gpus_at_their_limits_are_bottlenecks(told: dict[str, Any]) -> None:
    titles = [title for _, title in told["bottlenecks"]]
    assert "GPU-bound: GPU 1 was busy 75 % of the time" in titles
    assert any(title.startswith("memory of GPU 1: 12 %") for title in titles)
    assert told["block"]["bottleneck_severity"] > 0


def test_memory_of_the_gpu_is_a_fraction(told: dict[str, Any]) -> None:
    assert told["now"] == pytest.approx(0.75)


def test_energy_that_only_some_gpus_count_is_not_given_as_the_whole(
    told: dict[str, Any],
) -> None:
    notes = told["first"]["notes"]
    assert any("Energy of the GPUs of 1: this card does not count its energy." in n for n in notes)
    assert told["first"]["energy_method"] == "unavailable"
    assert told["first"]["energy_joules"] is None
