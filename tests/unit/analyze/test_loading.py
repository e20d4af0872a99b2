from __future__ import annotations

import pytest

from stepscope import DataLoadingBottleneck
from stepscope.analyze.loading import loading_limits
from stepscope.model.loading import LoadingFigures

B = DataLoadingBottleneck
BUSY = LoadingFigures(workers=0, batches=10, wall_s=1.0, cpu_s=0.95, cpus=4.0)
WAITING = BUSY._replace(cpu_s=0.1)


def limits(figures: LoadingFigures) -> list[DataLoadingBottleneck]:
    return [one.bottleneck for one in loading_limits(figures)]


def test_nothing_measured_nothing_found() -> None:
    assert limits(LoadingFigures(workers=0, batches=0, wall_s=0.0, cpu_s=0.0)) == []


def test_computing_is_not_called_a_slow_disk_however_long_a_batch_takes() -> None:
    slow = BUSY._replace(wall_s=100.0, cpu_s=95.0)
    assert limits(slow) == [B.CPU_BOUND_PREPROCESSING]
    (found,) = loading_limits(slow)
    assert found.finding.kind == "input-cpu"
    assert found.finding.share == pytest.approx(0.95)
    assert "num_workers=0" in found.finding.evidence[0]


def test_a_disk_is_slow_where_reads_were_waited_for() -> None:
    assert limits(WAITING._replace(read_bytes_per_s=5e6)) == [B.SLOW_DISK_IO]
    assert limits(WAITING._replace(blocked_io_share=0.6, read_bytes_per_s=0.0)) == [B.SLOW_DISK_IO]
    assert limits(BUSY._replace(read_bytes_per_s=5e6, cpu_s=0.99)) == [B.CPU_BOUND_PREPROCESSING]


def test_waiting_without_reading_is_another_source() -> None:
    (found,) = loading_limits(WAITING._replace(read_bytes_per_s=0.0))
    assert found.bottleneck is B.SLOW_DATA_SOURCE
    assert "network, a lock or a sleep" in found.finding.missing[0]


def test_waiting_for_a_cpu_is_not_waiting_for_data() -> None:
    assert limits(WAITING._replace(run_delay_cores=0.9)) == [B.CPU_BOUND_PREPROCESSING]


def test_workers_are_judged_by_their_own_cpu_time() -> None:
    workers = BUSY._replace(workers=2, cpu_s=0.05)
    assert limits(workers._replace(children_cores=1.9)) == [B.CPU_BOUND_PREPROCESSING]
    assert limits(workers._replace(children_cores=0.2)) == [B.SLOW_DATA_SOURCE]
    assert limits(workers) == [], "their CPU time was not measured"


def test_too_few_workers_where_the_model_is_sure_of_a_gain() -> None:
    more = BUSY._replace(best_workers=2, best_batches_per_s=(15.0, 20.0))
    found = {one.bottleneck: one.finding for one in loading_limits(more)}
    assert found[B.INSUFFICIENT_WORKERS].share == pytest.approx(0.5)  # 10 a second against 20
    assert found[B.INSUFFICIENT_WORKERS].confidence == pytest.approx(0.75)
    assert B.INSUFFICIENT_WORKERS not in limits(more._replace(best_batches_per_s=(10.0, 20.0)))
    assert B.INSUFFICIENT_WORKERS not in limits(more._replace(workers=2, children_cores=1.9))


def test_the_start_of_workers_counts_against_a_whole_pass() -> None:
    workers = BUSY._replace(workers=1, children_cores=0.1, startup_s=1.0, total_s=2.0)
    assert B.WORKER_STARTUP in limits(workers._replace(pass_batches=10))  # 1 s of 2 s
    assert B.WORKER_STARTUP not in limits(workers._replace(pass_batches=1000))  # 1 s of 101 s


def test_memory_and_transfers_that_were_measured() -> None:
    full = BUSY._replace(memory_taken=0.95, memory_threshold=0.8)
    assert B.MEMORY_PRESSURE in limits(full)
    assert B.MEMORY_PRESSURE not in limits(full._replace(memory_threshold=0.96))
    assert B.GPU_TRANSFER_OVERHEAD in limits(BUSY._replace(transfer_share=0.3))
    assert B.GPU_TRANSFER_OVERHEAD not in limits(BUSY._replace(transfer_share=0.01))


def test_with_the_step_known_the_share_is_that_of_training() -> None:
    (alone,) = loading_limits(BUSY)
    assert any("step_time" in sentence for sentence in alone.finding.missing)
    (beside,) = loading_limits(BUSY._replace(step_s=0.3))  # 0.1 s for a batch, of 0.4 s
    assert beside.finding.share == pytest.approx(0.95 / 4)
    assert beside.finding.missing == ()
    hidden = BUSY._replace(workers=2, children_cores=1.9, step_s=0.3)
    assert limits(hidden) == [], "workers make batches faster than training uses them"
