from __future__ import annotations

import pytest

from stepscope.analyze.block import Thresholds, block_findings
from stepscope.analyze.operations import OperationUse
from stepscope.analyze.resources import GpuUse, ProcessUse, Resources

S = 1_000_000_000
LIMITS = Thresholds(cpu=80.0, memory=80.0, gpu=90.0)


def kinds(use: OperationUse, limits: Thresholds = LIMITS) -> list[str]:
    return [finding.kind for finding in block_findings(use, limits)]


def test_nothing_ran_nothing_is_found() -> None:
    assert kinds(OperationUse("1/x")) == []
    assert kinds(OperationUse("1/x", wall_ns=S, user_ns=S // 10)) == []


def test_one_cpu_busy_all_the_time_is_computing() -> None:
    (found,) = block_findings(OperationUse("1/x", wall_ns=S, user_ns=S * 9 // 10), LIMITS)
    assert found.kind == "compute"
    assert found.share == pytest.approx(0.9)
    assert "80 %" in found.evidence[0]
    assert kinds(OperationUse("1/x", wall_ns=S, user_ns=S * 9 // 10), LIMITS._replace(cpu=95)) == []


def test_memory_that_is_nearly_taken_is_pressure() -> None:
    taken = Resources(memory_total_bytes=1000.0, memory_available_bytes=100.0)
    (found,) = block_findings(OperationUse("1/x", wall_ns=S, resources=taken), LIMITS)
    assert found.kind == "memory-pressure"
    assert found.share == pytest.approx(0.9)


def test_a_busy_gpu_and_its_memory() -> None:
    gpu = GpuUse(index=1, busy_share=0.95, memory_used_bytes=90.0, memory_total_bytes=100.0)
    use = OperationUse("1/x", wall_ns=S, resources=Resources(gpus=(gpu,)))
    assert kinds(use) == ["compute", "memory-pressure"]


def test_waiting_for_a_cpu_and_for_a_disk() -> None:
    program = ProcessUse(1, run_delay_cores=0.5, blocked_io_share=0.6, read_bytes_per_s=1e6)
    use = OperationUse("1/x", wall_ns=S, user_ns=S // 4, resources=Resources(program=program))
    assert kinds(use) == ["input-io", "oversubscription"], "the largest share first"
