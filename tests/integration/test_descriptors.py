"""A program that closes all descriptors and opens its own files keeps every one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from stepscope.model.checkpoint_plan import CheckpointPlan, Segment
from stepscope.store.plan_file import write_plan
from tests.integration.joined import SCRIPTS, SOURCE, environment

BEGINNING = """
import os, sys, time
from pathlib import Path
from own_files import OwnFiles, Training
import stepscope
from stepscope import *

folder = Path(sys.argv[1])
own_files = OwnFiles(folder)
training = Training()
if sys.argv[2] == "before":
    own_files.open()

def daemonize():
    training.run(0.1)
    if sys.argv[2] == "between":
        own_files.open()
    training.run(1.3)
"""
END = """
own_files.check("worked")
"""

PROFILERS = {
    "PerformanceProfiler": """
        profiler = PerformanceProfiler(
            detailed_memory=True, memory_interval=0.05, track_carbon=True,
            enable_line_profiling=True, estimate_flops=True,
        )
        with profiler.profile("work"):
            daemonize()
        with profiler.profile("more"):
            training.run(0.1)
        profiler.get_metrics()
        profiler.save(folder / "saved")
    """,
    "plain PerformanceProfiler": """
        profiler = PerformanceProfiler(memory_interval=0.05)
        with profiler.profile("work"):
            daemonize()
        for _ in range(20):
            with profiler.profile("more"):
                time.sleep(0.01)
        profiler.get_metrics()
    """,
    "BottleneckProfiler": """
        config = BottleneckProfilerConfig(sampling_interval=0.05, output_directory=folder / "out")
        profiler = BottleneckProfiler(config)
        profiler.start_profiling_session("one")
        with profiler.profile_operation("work", BottleneckType.CPU_COMPUTATION):
            daemonize()
        profiler.stop_profiling_session()
        profiler.generate_optimization_report()
    """,
    "MemoryProfiler": """
        profiler = MemoryProfiler()
        profiler.enable()
        daemonize()
        profiler.get_statistics()
        profiler.get_events()
        profiler.close()
    """,
    "MemoryProfiler in a run folder": """
        profiler = MemoryProfiler(storage=RunFolderStorage(folder / "run"))
        profiler.enable()
        daemonize()
        profiler.get_statistics()
        profiler.get_events()
        profiler.close()
    """,
    "PerformanceMonitor": """
        config = ProfilingConfig(
            monitoring_interval=0.05, memory_threshold=0.001, cpu_threshold=0.001,
            rules={"threshold": [{"metric": "heat", "above": 1, "severity": 0.9}]},
            alert_threshold=0.1,
            alerts_dir=folder / "alerts",
            sinks=[{"type": "tensorboard", "interval_s": 0.1}, {"type": "prometheus", "port": 0}],
        )
        heard = []
        async def hear(alert):
            heard.append(alert)
        monitor = PerformanceMonitor(config)
        monitor.add_alert_callback(hear)  # keeps an event loop
        monitor.start_monitoring()
        until = time.monotonic() + 10
        while not heard and time.monotonic() < until:
            stepscope.metric("heat", 2.0)
            training.run(0.1)
        assert heard
        daemonize()
        monitor.get_monitoring_summary()
        monitor.stop_monitoring()
        monitor.close()
        del monitor
    """,
    "AdvancedProfiler": """
        config = ProfilingConfig(enable_monitoring=True, monitoring_interval=0.05)
        profiler = AdvancedProfiler(config)
        profiler.start_profiling()
        daemonize()
        profiler.stop_profiling()
        profiler.profile_dataloader(training.loader)
        profiler.get_bottlenecks()
    """,
    "CPUMemoryProfiler": """
        profiler = CPUMemoryProfiler(ProfilingConfig(enable_tracemalloc=True))
        profiler.start_profiling()
        daemonize()
        profiler.stop_profiling()
        profiler.get_bottlenecks()
    """,
    "GPUProfiler": """
        profiler = GPUProfiler()
        profiler.start_profiling()
        daemonize()
        profiler.stop_profiling()
    """,
    "DataLoadingProfiler": """
        profiler = DataLoadingProfiler()
        profiler.profile_data_loader(training.loader)
        daemonize()
        profiler.profile_data_loader(Training(workers=2).loader)
        profiler.get_bottlenecks()
    """,
    "PreprocessingProfiler": """
        profiler = PreprocessingProfiler()
        profiler.profile_preprocessing_function(lambda one: one, [1, 2, 3])
        daemonize()
        profiler.profile_preprocessing_function(lambda one: one, [1, 2, 3])
        profiler.generate_report()
    """,
    "checkpoint profiler and monitor": """
        engine = RecomputationEngine()
        manager = CheckpointManager(training.model, engine)
        manager.apply(CheckpointPlan((Segment("0"),)))
        profiler = CheckpointProfiler(manager, engine)
        monitor = CheckpointMonitor(profiler, monitor_interval_ms=50)
        profiler.start_profiling()
        daemonize()
        monitor.check_thresholds()
        profiler.stop_profiling()
        profiler.generate_report()
        monitor.close()
        profiler.close()
        manager.close()
    """,
    "plan_checkpoints": """
        import torch
        daemonize()
        plan_checkpoints(training.model, lambda: training.step(torch.randn(4, 16)), "1GB")
    """,
    "GCMonitor": """
        monitor = GCMonitor()
        monitor.start()
        daemonize()
        monitor.get_use()
        monitor.stop()
        monitor.close()
    """,
    "trackers": """
        trackers = [CPUTracker(), GPUTracker(), IOTracker(), MemoryTracker()]
        for tracker in trackers:
            tracker.start_session()
        daemonize()
        for tracker in trackers:
            tracker.get_current_stats()
            tracker.stop_session()
    """,
    "functions": """
        @profile_function()
        def work():
            daemonize()

        with profile_context("all"):
            work()
        metric("loss", 1.0)
    """,
}

CHANGES = """
[[changes]]
name = "logging"
settings = { seconds = 0.3 }
[[changes]]
name = "saving"
[[changes]]
name = "cache"
settings = { limit_bytes = 1000000, where = "%s" }
[[changes]]
name = "packing"
"""

RUNS = {
    "production": ("run", "--level", "production"),
    "basic": ("run", "--level", "basic"),
    "detailed": ("run", "--level", "detailed"),
    "comprehensive": ("run", "--level", "comprehensive"),
    "memory": ("run", "--memory"),
    "heap": ("run", "--memory", "--python-heap"),
    "watch": ("run", "--watch", "default"),
    "plan": ("run", "--plan", "plan.json"),
    "apply": ("run", "--apply", "memory.toml"),
    "apply on disk": ("run", "--apply", "disk.toml"),
}
# Each program takes some seconds: most of them are left to the slower suites.
QUICK = ("plain PerformanceProfiler", "BottleneckProfiler", "memory", "apply")
MOMENTS = [pytest.param("between"), pytest.param("before", marks=pytest.mark.extended)]


def marked(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "own"
    made.mkdir()
    return made


def assert_unharmed(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert done.returncode == 0, done.stderr
    assert (folder / "damage").read_text() == ""
    moments = (folder / "checked").read_text().split("\n")
    assert moments[1:] == ["atexit", "last module", ""], done.stderr
    contents = [(folder / f"{number}.txt").read_text() for number in range(256)]
    assert contents == [f"file {number} of the program\n" for number in range(256)]


def start(folder: Path, *words: str, core: str = "native") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(SOURCE), str(SCRIPTS)))
    return subprocess.run(
        [sys.executable, *words], cwd=folder.parent, capture_output=True, text=True, timeout=100,
        check=False, env=environment(PYTHONPATH=path, STEPSCOPE_CORE=core),
    )  # fmt: skip


@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("name", marked(PROFILERS))
def test_a_profiler_leaves_the_files_of_a_daemon_alone(name: str, when: str, folder: Path) -> None:
    text = BEGINNING + dedent(PROFILERS[name]) + END
    done = start(folder, "-c", text, str(folder), when)
    assert_unharmed(done, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PerformanceProfiler", "BottleneckProfiler", "MemoryProfiler"])
def test_so_does_a_profiler_without_the_compiled_core(name: str, folder: Path) -> None:
    text = BEGINNING + dedent(PROFILERS[name]) + END
    done = start(folder, "-c", text, str(folder), "between", core="python")
    assert_unharmed(done, folder)


@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("mode", marked(RUNS))
def test_a_run_leaves_the_files_of_a_daemon_alone(mode: str, when: str, folder: Path) -> None:
    write_plan(folder.parent / "plan.json", CheckpointPlan((Segment("0"),)))
    for where in ("memory", "disk"):
        (folder.parent / f"{where}.toml").write_text(CHANGES % where)
    program = (str(SCRIPTS / "as_daemon.py"), str(folder), "2", when)
    done = start(folder, "-m", "stepscope", *RUNS[mode], "-q", "-o", "run", *program)
    assert_unharmed(done, folder)
    assert (folder.parent / "run" / "summary.json").exists()
