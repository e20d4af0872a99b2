from __future__ import annotations

import pytest

from stepscope.analyze.measure import Asked, measure
from stepscope.analyze.operations import OperationUse
from stepscope.analyze.resources import GpuUse, Resources

MB, S = 2.0**20, 1_000_000_000
USED = OperationUse(
    "3/a/b",
    calls=4,
    failed=1,
    wall_ns=2 * S,
    user_ns=1 * S,
    system_ns=S // 2,
    shortest_ns=S // 10,
    longest_ns=S,
    initial_rss_bytes=100 * MB,
    final_rss_bytes=1024 * MB,
    peak_rss_bytes=2048 * MB,
    peak_is_exact=True,
    stretches=((0, 2 * S),),
    resources=Resources(cpu_count=2.0, memory_total_bytes=1000.0, memory_available_bytes=250.0),
)


def test_units_and_shares() -> None:
    found = measure(USED, Asked())
    assert (found.operation, found.calls, found.failed_calls) == ("a/b", 4, 1)
    assert (found.execution_time, found.cpu_time) == (2.0, 1.5)
    assert (found.user_time, found.system_time) == (1.0, 0.5)
    assert (found.shortest_time, found.longest_time) == (0.1, 1.0)
    assert found.cpu_usage == pytest.approx(37.5)  # 1.5 s of 2 CPUs in 2 s
    assert (found.initial_ram_mb, found.peak_ram_mb, found.final_ram_mb) == (100, 2048, 1024)
    assert found.memory_usage == 1.0
    assert found.host_memory_percent == 75.0


def test_what_was_not_measured_is_none_and_a_note_says_why() -> None:
    found = measure(OperationUse("1/x", calls=1, wall_ns=S), Asked(flops=True, flops_reason="why."))
    for name in (
        "peak_ram_mb", "initial_ram_mb", "memory_method", "gpu_usage", "peak_gpu_mb", "gpu_time",
        "estimated_flops", "flops_per_second", "peak_flops_percent", "host_cpu_percent",
        "disk_io_percent", "network_io_mb", "cpu_usage",
    ):  # fmt: skip
        assert getattr(found, name) is None, name
    assert "FLOPs: why." in found.notes
    assert any("No GPU was seen" in note for note in found.notes)


def test_children_that_live_on_count_in_user_and_system() -> None:
    living = OperationUse(
        "1/x", wall_ns=S, user_ns=100, system_ns=10, living_cpu_ns=50.0, living_system_ns=20.0
    )
    found = measure(living, Asked())
    assert found.user_time == pytest.approx(130e-9)
    assert found.system_time == pytest.approx(30e-9)


def test_flops_a_second_and_their_share_of_the_peak() -> None:
    counted = OperationUse("1/x", calls=1, wall_ns=2 * S, flops=4_000_000)
    found = measure(counted, Asked(flops=True, peak_flops_per_s=8e6))
    assert found.estimated_flops == 4_000_000
    assert found.flops_per_second == pytest.approx(2e6)
    assert found.peak_flops_percent == pytest.approx(25.0)
    assert measure(counted, Asked(flops=False)).estimated_flops is None


def test_gpus_of_this_process_count_and_others_do_not() -> None:
    ours = GpuUse(index=0, busy_share=0.5, peak_allocated_bytes=300 * MB)
    other = GpuUse(index=1, busy_share=1.0)
    used = OperationUse("1/x", wall_ns=2 * S, resources=Resources(gpus=(ours, other)))
    found = measure(used, Asked())
    assert (found.gpu_usage, found.gpu_time, found.peak_gpu_mb) == (50.0, 1.0, 300.0)
    assert measure(used, Asked(gpu=False)).gpu_usage is None


@pytest.mark.parametrize(
    ("exact", "can_reset", "said"),
    [
        (True, True, "high-water mark, reset when a run begins"),
        (False, True, "too short and frequent"),
        (False, False, "not resettable"),
    ],
)
def test_how_the_peak_was_found_is_said(exact: bool, can_reset: bool, said: str) -> None:
    used = OperationUse("1/x", wall_ns=S, peak_rss_bytes=MB, peak_is_exact=exact)
    assert said in (measure(used, Asked(can_reset_peak=can_reset)).memory_method or "")
