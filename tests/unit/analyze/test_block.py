from __future__ import annotations

import pytest

from stepscope.analyze.block import Thresholds, block_findings
from stepscope.analyze.operations import OperationUse
from stepscope.analyze.resources import GpuUse, ProcessUse, Resources
from stepscope.model.types import BottleneckType

S = 1_000_000_000
LIMITS = Thresholds(cpu=80.0, memory=80.0, gpu=90.0)


def kinds(use: OperationUse, limits: Thresholds = LIMITS) -> list[str]:
    return [finding.kind for finding in block_findings(use, limits)]


def test_nothing_ran_nothing_is_found() -> None:
    assert kinds(OperationUse("1/x")) == []
    assert kinds(OperationUse("1/x", wall_ns=S, user_ns=S // 10)) == []


def test_one_cpu_busy_all_the_time_is_computing() -> None:
    (found,) = block_findings(OperationUse("1/x", wall_ns=S, user_ns=S * 9 // 10), LIMITS)
    assert found.kind == "cpu-bound"
    assert found.bottleneck_type is BottleneckType.CPU_BOUND
    assert found.share == pytest.approx(0.9)
    assert "80 %" in found.evidence[0]
    assert kinds(OperationUse("1/x", wall_ns=S, user_ns=S * 9 // 10), LIMITS._replace(cpu=95)) == []


def test_a_thread_that_other_programs_keep_off_the_cpu_is_still_cpu_bound() -> None:
    program = ProcessUse(1, run_delay_cores=0.4)
    use = OperationUse("1/x", wall_ns=S, user_ns=S * 6 // 10, resources=Resources(program=program))
    first, second = block_findings(use, LIMITS)
    assert first.kind == "cpu-bound"
    assert first.share == pytest.approx(1.0)
    assert first.title == "CPU-bound: it computed 60 % of the time and waited for a CPU 40 %"
    assert second.kind == "oversubscription"


def test_a_block_that_is_blocked_is_not_cpu_bound() -> None:
    program = ProcessUse(1, run_delay_cores=0.1)
    use = OperationUse("1/x", wall_ns=S, user_ns=S * 6 // 10, resources=Resources(program=program))
    assert kinds(use) == []


def test_an_empty_block_is_not_judged_by_what_our_own_start_and_stop_take() -> None:
    program = ProcessUse(1, run_delay_cores=0.9)
    busy = Resources(program=program)
    assert kinds(OperationUse("1/x", wall_ns=S // 1000, user_ns=S // 1001)) == []
    assert kinds(OperationUse("1/x", wall_ns=S // 100, user_ns=S // 1001, resources=busy)) == []


def test_memory_that_is_nearly_taken_is_pressure() -> None:
    taken = Resources(memory_total_bytes=1000.0, memory_available_bytes=100.0)
    (found,) = block_findings(OperationUse("1/x", wall_ns=S, resources=taken), LIMITS)
    assert found.kind == "memory-pressure"
    assert found.share == pytest.approx(0.9)
    assert found.confidence == 0.5, "whose memory it is was not measured"
    use = OperationUse("1/x", wall_ns=S, resources=taken, peak_rss_bytes=720.0)
    (ours,) = block_findings(use, LIMITS)
    assert ours.confidence == pytest.approx(0.5 + 0.5 * 720 / 900)


def test_a_busy_gpu_and_its_memory() -> None:
    gpu = GpuUse(index=1, busy_share=0.95, memory_used_bytes=90.0, memory_total_bytes=100.0)
    use = OperationUse("1/x", wall_ns=S, resources=Resources(gpus=(gpu,)))
    assert kinds(use) == ["compute", "memory-pressure"]


def test_waiting_for_a_cpu_and_for_a_disk() -> None:
    program = ProcessUse(1, run_delay_cores=0.5, blocked_io_share=0.6, read_bytes_per_s=1e6)
    use = OperationUse("1/x", wall_ns=S, user_ns=S // 4, resources=Resources(program=program))
    assert kinds(use) == ["input-io", "oversubscription"], "the largest share first"
