from __future__ import annotations

import pytest

from stepscope import BottleneckType, DataLoadingBottleneck, DataLoadingProfile, PerformanceMetrics
from stepscope.advise.loading import best_profile, suggest_loading, with_best_workers
from stepscope.advise.operations import suggest, suggest_memory
from stepscope.model.loading import LoadingFigures

BUSY = LoadingFigures(workers=0, batches=10, wall_s=1.0, cpu_s=1.0, cpus=4.0)


def test_workers_for_work_that_the_cpus_can_share() -> None:
    found = with_best_workers(BUSY)
    assert found.best_workers == 4
    assert found.best_batches_per_s is not None
    low, high = found.best_batches_per_s
    assert high == pytest.approx(40.0)  # 0.1 s for a batch, on 4 CPUs
    assert low < high


def test_no_more_workers_than_cpus_are_promised_where_others_use_them() -> None:
    short = BUSY._replace(cpu_s=0.5, run_delay_cores=0.5)  # half of the time it had none
    found = with_best_workers(short)
    assert found.best_batches_per_s is not None
    assert found.best_batches_per_s[0] < found.best_batches_per_s[1] / 2


def test_batches_that_are_dearer_to_send_than_to_make_want_no_more_workers() -> None:
    workers = BUSY._replace(workers=2, cpu_s=0.1, children_cores=0.6, program_cores=0.1)
    assert with_best_workers(workers._replace(made_s=0.1)).best_workers is not None
    assert with_best_workers(workers._replace(made_s=0.001)).best_workers is None


def test_without_the_cpus_nothing_is_promised() -> None:
    assert with_best_workers(BUSY._replace(cpus=None)).best_workers is None
    assert with_best_workers(BUSY._replace(wall_s=0.0, batches=0)).best_workers is None


def test_every_bottleneck_has_advice() -> None:
    advice = suggest_loading(DataLoadingBottleneck, BUSY._replace(best_workers=3))
    assert len(advice) == len(DataLoadingBottleneck)
    assert any("num_workers=3" in one for one in advice)


def profile(workers: int, rate: float, mb: float = 100.0) -> DataLoadingProfile:
    return DataLoadingProfile(
        num_workers=workers, throughput_samples_per_second=rate, memory_usage_mb=mb
    )


def test_the_best_is_the_fastest_and_among_equals_the_cheapest() -> None:
    slow, fast, as_fast = profile(0, 50), profile(4, 100), profile(2, 98)
    assert best_profile([slow, fast]) is fast
    assert best_profile([slow, fast, as_fast]) is as_fast
    lean = profile(2, 97.5, mb=50)
    assert best_profile([as_fast, lean]) is lean


def metrics(cpu_s: float) -> PerformanceMetrics:
    return PerformanceMetrics(execution_time=1.0, cpu_time=cpu_s)


def test_what_waits_gets_other_advice_than_what_computes() -> None:
    for one in BottleneckType:
        waits, computes = suggest(one, metrics(0.0), 4.0), suggest(one, metrics(1.0), 4.0)
        assert waits
        assert computes
        if one is not BottleneckType.GPU_TRANSFER:
            assert waits[0] != computes[0]
    assert suggest(BottleneckType.PREPROCESSING, PerformanceMetrics(), 4.0) == ()


def test_memory_that_others_hold_is_not_this_programs_to_save() -> None:
    assert "other programs" in suggest_memory(100.0, 1000.0)[0]
    assert "smaller batch" in suggest_memory(900.0, 1000.0)[0]
    assert "smaller batch" in suggest_memory(None, None)[0]
