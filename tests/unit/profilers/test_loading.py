from __future__ import annotations

import gc
import logging
import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from stepscope import (
    BottleneckProfilerConfig,
    DataLoadingBottleneck,
    DataLoadingProfiler,
    NoResultsError,
    PreprocessingProfiler,
    ProfilingConfig,
    UsageError,
)


class Slow(Dataset[Any]):
    """A sample takes so much CPU time, and so much sleep."""

    def __init__(self, samples: int = 200, busy_s: float = 0.0, sleep_s: float = 0.0) -> None:
        self._samples, self._busy_s, self._sleep_s = samples, busy_s, sleep_s

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, at: int) -> Any:
        end = time.thread_time() + self._busy_s
        while time.thread_time() < end:
            pass
        time.sleep(self._sleep_s)
        return torch.rand(4), at


def test_a_loader_that_computes() -> None:
    loader = DataLoader(Slow(busy_s=0.002), batch_size=8, shuffle=True)
    torch.manual_seed(5)
    wanted = torch.get_rng_state()
    profile = DataLoadingProfiler().profile_data_loader(loader, num_batches=8)
    assert torch.equal(torch.get_rng_state(), wanted)
    assert (profile.batch_size, profile.num_workers, profile.num_batches) == (8, 0, 8)
    assert profile.num_samples == 64
    assert profile.avg_batch_time is not None
    assert profile.avg_batch_time >= 8 * 0.002
    assert profile.throughput_batches_per_second == pytest.approx(1 / profile.avg_batch_time)
    assert profile.score == pytest.approx(8 / profile.avg_batch_time)
    assert profile.min_batch_time is not None
    assert profile.max_batch_time is not None
    assert profile.min_batch_time <= profile.avg_batch_time <= profile.max_batch_time * 1.01
    assert DataLoadingBottleneck.CPU_BOUND_PREPROCESSING in profile.bottlenecks
    assert DataLoadingBottleneck.SLOW_DISK_IO not in profile.bottlenecks
    assert len(profile.suggestions) == len(profile.bottlenecks) == len(profile.findings)


def test_a_loader_that_waits_is_no_slow_disk_either() -> None:
    gc.collect()  # one in the middle, of all that other tests left, would be most of its time
    # Long enough that what this process does besides, now and then, is a small part of it.
    loader = DataLoader(Slow(samples=400, sleep_s=0.01), batch_size=4)
    profile = DataLoadingProfiler().profile_dataloader(loader, num_batches=60)
    assert DataLoadingBottleneck.SLOW_DATA_SOURCE in profile.bottlenecks
    assert DataLoadingBottleneck.SLOW_DISK_IO not in profile.bottlenecks


def test_workers_are_started_apart_from_what_they_deliver() -> None:
    loader = DataLoader(Slow(sleep_s=0.01), batch_size=4, num_workers=2, prefetch_factor=2)
    profile = DataLoadingProfiler().profile_data_loader(loader, num_batches=7)
    assert profile.num_batches == 8, "whole bursts of two workers"
    assert profile.startup_seconds is not None
    assert profile.startup_seconds > 0
    # 40 ms for a batch and worker; on a busy machine slower, never faster.
    assert profile.throughput_batches_per_second is not None
    assert profile.throughput_batches_per_second < 2 / 0.04 * 1.05
    assert profile.worker_memory_mb is None or profile.worker_memory_mb > 1


def test_a_step_that_takes_longer_than_a_batch_has_no_bottleneck() -> None:
    loader = DataLoader(Slow(sleep_s=0.001), batch_size=4, num_workers=1)
    profile = DataLoadingProfiler().profile_data_loader(loader, 4, step_time=1000.0)
    assert profile.bottlenecks in ((), (DataLoadingBottleneck.MEMORY_PRESSURE,))


@pytest.mark.parametrize(("samples", "batches"), [(4, 1), (12, 2)])
def test_data_that_ends_early_says_so(samples: int, batches: int) -> None:
    loader = DataLoader(Slow(samples, busy_s=0.001), batch_size=4)
    profile = DataLoadingProfiler().profile_data_loader(loader, 10)
    assert profile.num_batches == batches
    assert any("too few" in note or "ended after 2 of 10" in note for note in profile.notes)
    assert profile.score > 0


def test_anything_that_can_be_iterated_over_will_do() -> None:
    profile = DataLoadingProfiler().profile_data_loader([torch.zeros(3)] * 20, 10)
    assert (profile.num_batches, profile.num_samples) == (10, 30)
    assert any("no DataLoader" in note for note in profile.notes)
    strings = DataLoadingProfiler().profile_data_loader(["a"] * 20, 10)
    assert strings.num_samples is None
    assert strings.score == strings.throughput_batches_per_second


def test_nothing_in_it_gives_nothing() -> None:
    profile = DataLoadingProfiler().profile_data_loader([], 3)
    assert (profile.num_batches, profile.avg_batch_time, profile.score) == (0, None, 0.0)
    assert profile.bottlenecks == ()


def test_an_error_of_the_dataset_is_the_users() -> None:
    class Broken(Slow):
        def __getitem__(self, at: int) -> Any:
            raise OSError("the disk is gone")

    profiler = DataLoadingProfiler()
    with pytest.raises(OSError, match="the disk is gone"):
        profiler.profile_data_loader(DataLoader(Broken()), 3)
    assert profiler.profiles == []


def test_the_best_configuration_and_those_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    class Picky(Slow):
        def __getitems__(self, places: list[int]) -> Any:
            if len(places) == 3:
                raise OSError("not three")
            return [super(Picky, self).__getitem__(at) for at in places]

    profiler = DataLoadingProfiler()
    with caplog.at_level(logging.WARNING, "stepscope"):
        profiles = profiler.profile_configuration_range(Picky(sleep_s=0.001), [2, 3, 8], [0])
    assert [one.batch_size for one in profiles] == [2, 8]
    assert "batch_size=3, workers=0" in caplog.text
    assert profiler.failed_configurations[0][:2] == (3, 0)
    best = profiler.get_best_configuration(profiles)
    assert profiler.calculate_profile_score(best) >= 0.97 * max(one.score for one in profiles)


def test_the_wrong_arguments_are_refused() -> None:
    profiler = DataLoadingProfiler()
    with pytest.raises(UsageError, match="num_batches=0"):
        profiler.profile_data_loader([], 0)
    with pytest.raises(UsageError, match="step_time"):
        profiler.profile_data_loader([], 1, step_time=math.nan)
    with pytest.raises(UsageError, match="something to iterate over"):
        profiler.profile_data_loader(3, 1)  # type: ignore[arg-type]
    with pytest.raises(NoResultsError):
        profiler.get_bottlenecks()
    with pytest.raises(NoResultsError):
        profiler.get_best_configuration()
    with pytest.raises(NoResultsError):
        profiler.generate_report()


def test_switched_off_nothing_is_iterated() -> None:
    def never() -> Any:
        yield 1 / 0

    profiler = DataLoadingProfiler(ProfilingConfig(enabled=False))
    assert profiler.profile_dataloader(never(), 5).avg_batch_time is None
    assert profiler.profile_preprocessing(lambda data: 1 / 0, 1).execution_time is None
    assert profiler.get_bottlenecks() == []


def test_the_report_has_both(tmp_path: Path) -> None:
    profiler = DataLoadingProfiler()
    profiler.profile_dataloader([torch.zeros(3)] * 20, 5)
    profiler.profile_preprocessing(torch.sin, torch.zeros(100))
    page = profiler.generate_report(tmp_path).markdown.read_text("utf-8")
    assert "# Data Loading Profiling Report" in page
    assert "### sin" in page


# ---- preprocessing ----

CACHING = BottleneckProfilerConfig(enable_caching=True, cache_size=2)


def test_every_call_that_counts_is_made() -> None:
    calls = []

    def slow(data: Any) -> Any:
        calls.append(data)
        time.sleep(0.01)
        return data + 1

    profile = PreprocessingProfiler(CACHING).profile_preprocessing_function(
        slow, torch.zeros(3), num_iterations=5
    )
    assert len(calls) == 5 + 2, "two before, to see whether it gives the same again"
    assert (profile.operation_name, profile.num_iterations) == ("slow", 5)
    assert profile.execution_time is not None
    assert profile.execution_time >= 0.01, "not that of the cache"
    assert profile.throughput == pytest.approx(1 / profile.execution_time)
    assert (profile.cache_hits, profile.cache_misses) == (4, 1)
    assert profile.cache_gain is not None
    assert profile.cache_gain > 0.5
    assert "Keep results" in profile.suggestions[0]
    assert profile.is_deterministic is True
    assert profile.changes_input is False


def test_the_same_shape_is_not_the_same_data() -> None:
    profiler = PreprocessingProfiler(CACHING)
    for data in (torch.zeros(3), torch.ones(3)):
        assert profiler.profile_preprocessing_function(torch.exp, data, 3).cache_misses == 1
    assert profiler.profile_preprocessing_function(torch.exp, torch.ones(3), 3).cache_misses == 0
    assert profiler.profile_preprocessing_function(torch.sin, torch.ones(3), 3).cache_misses == 1
    assert len(profiler.preprocessing_cache) == 2, "no more than were asked for"


def test_what_is_not_the_same_again_is_not_kept() -> None:
    torch.manual_seed(0)
    wanted = torch.get_rng_state()
    profile = PreprocessingProfiler(CACHING).profile_preprocessing_function(
        torch.rand_like, torch.zeros(3)
    )
    assert profile.is_deterministic is False
    assert (profile.cache_hits, profile.cache_misses, profile.cache_gain) == (0, 0, None)
    assert "two calls with the same input" in profile.notes[0]
    assert torch.equal(torch.get_rng_state(), wanted)


def test_what_changes_its_input_is_said() -> None:
    profile = PreprocessingProfiler(CACHING).profile_preprocessing_function(
        lambda data: data.add_(1), torch.zeros(3)
    )
    assert profile.changes_input is True
    assert profile.is_deterministic is None
    assert "changes its input" in profile.notes[0]


def test_batches_of_several_sizes() -> None:
    def only_even(data: Any) -> Any:
        if len(data) == 3:
            raise ValueError("not three")
        return data * 2

    profiler = PreprocessingProfiler()
    one, two = profiler.profile_batch_preprocessing(only_even, torch.zeros(3, 4, 4), [1, 3, 2])
    assert (one.batch_size, one.input_shape) == (1, (1, 3, 4, 4))
    assert (two.batch_size, two.input_shape) == (2, (2, 3, 4, 4))
    assert two.operation_name == "only_even_batch_2"
    assert two.samples_per_second is not None
    assert two.execution_time is not None
    assert two.samples_per_second == pytest.approx(2 / two.execution_time)
    assert profiler.profiles == [one, two]


def test_preprocessing_that_cannot_be_profiled_is_refused(tmp_path: Path) -> None:
    profiler = PreprocessingProfiler()
    with pytest.raises(UsageError, match="is a function"):
        profiler.profile_preprocessing_function(3, 1)  # type: ignore[arg-type]
    for wrong in (0, 1.5, True):
        with pytest.raises(UsageError, match="num_iterations"):
            profiler.profile_preprocessing_function(abs, 1, wrong)  # type: ignore[arg-type]
    with pytest.raises(NoResultsError):
        profiler.generate_report(tmp_path)
    with pytest.raises(ZeroDivisionError):
        profiler.profile_preprocessing_function(lambda data: 1 / data, 0)
