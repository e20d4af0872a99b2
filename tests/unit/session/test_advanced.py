from __future__ import annotations

import pytest

from stepscope.model.loading import DataLoadingProfile
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.summary import PhaseShare, StepsSummary, Summary
from stepscope.session.advanced import Measured, Seen, data_metrics

# Ten steps of 100 ms: 40 ms waiting for data, of which the thread computed 10 ms, and 60 ms of
# work. The process kept 1.2 CPUs busy.
LOOP = Summary(
    run={},
    steps=StepsSummary(count=10, micro_batches=20, found_by="optimizer"),
    wall_ms=1000.0,
    breakdown=(
        PhaseShare("input wait", 400.0, 0.4, 100.0),
        PhaseShare("forward", 600.0, 0.6, 600.0),
    ),
    resources={"program": {"cpu_cores": 1.2}},
)


def measured(loop: Summary | None) -> Measured:
    metrics = PerformanceMetrics(
        execution_time=2.0,
        cpu_usage=50.0,
        gpu_usage=80.0,
        gpu_time=1.6,
        notes=("No GPU was seen.", "Memory was sampled."),
    )
    return Measured(metrics, [], loop)


def test_a_step_is_what_a_batch_takes_beside_getting_it() -> None:
    step = measured(LOOP).step
    assert step is not None
    assert step.wall_s == pytest.approx(0.6 / 20)
    assert step.cpu_s == pytest.approx((1.2 - 0.1) / 20)
    assert measured(None).step is None


def test_the_cpu_and_the_gpu_have_what_is_theirs() -> None:
    both = measured(None)
    assert (both.cpu.gpu_usage, both.cpu.gpu_time, both.cpu.cpu_usage) == (None, None, 50.0)
    assert both.cpu.notes == ("Memory was sampled.",)
    assert (both.gpu.gpu_usage, both.gpu.gpu_time, both.gpu.cpu_usage) == (80.0, 1.6, None)
    assert both.gpu.notes == ("No GPU was seen.",)


def test_data_is_what_the_loop_waited_whatever_else_was_profiled() -> None:
    data = data_metrics(LOOP, [DataLoadingProfile(avg_batch_time=9.0, num_batches=9)])
    assert (data.calls, data.execution_time, data.cpu_time) == (20, 0.4, 0.1)
    assert data.notes == ("The training loop waited 40% of its time for its data.",)


def test_loaders_that_were_profiled_are_summed_up() -> None:
    profiles = [
        DataLoadingProfile(avg_batch_time=0.1, num_batches=5, min_batch_time=0.05),
        DataLoadingProfile(notes=("nothing was measured",)),
        DataLoadingProfile(avg_batch_time=0.2, num_batches=5, max_batch_time=0.4),
    ]
    data = data_metrics(None, profiles)
    assert data.calls == 10
    assert data.execution_time == pytest.approx(1.5)
    assert (data.shortest_time, data.longest_time) == (0.05, 0.4)


def test_the_last_samples_of_a_function_are_kept() -> None:
    seen = Seen()
    for number in range(10):
        seen.add_sample(str, number)
    assert seen.samples_of(str) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert seen.samples_of(repr) == []
    assert seen.functions() == [(str, [2, 3, 4, 5, 6, 7, 8, 9])]


def test_functions_that_were_profiled_long_ago_are_let_go() -> None:
    seen = Seen()
    functions = [lambda data, number=number: number for number in range(101)]
    for function in functions:
        seen.add_sample(function, 1)
    assert len(seen.functions()) == 100
    assert seen.samples_of(functions[0]) == []
