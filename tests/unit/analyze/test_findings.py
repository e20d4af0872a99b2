from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stepscope.analyze.findings import findings
from stepscope.analyze.judge import separation, severity
from stepscope.analyze.loop import Loop
from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.model import names
from tests.unit.analyze.made import (
    Event,
    backward,
    exhausted,
    forward,
    in_eval,
    iter_,
    loop,
    mark,
    next_,
    optimizer,
    span,
)

SETTINGS = {
    "workers": 0,
    "batch_size": 32,
    "file": "data.py",
    "line": 12,
    "function": "D.__getitem__",
}


def settings(workers: int, iterator: int = 1) -> Event:
    return mark(names.LOADER, 1, iterator, json.dumps(SETTINGS | {"workers": workers}))


def steps(
    count: int, input_ms: float, busy: float = 1.0, gap_ms: float = 0.0, optimizer_ms: float = 10.0
) -> list[Event]:
    """Steps of 100 ms of work, `input_ms` of waiting and `gap_ms` of a sleep after the step."""
    events: list[Event] = []
    at = cpu = 10.0
    for _ in range(count):
        ran = input_ms * busy
        model = 100 - optimizer_ms
        events += [
            next_(at, at + input_ms, cpu=(cpu, cpu + ran)),
            forward(at + input_ms, at + input_ms + 40, cpu=(cpu + ran, cpu + ran + 40)),
            backward(
                at + input_ms + 40, at + input_ms + model, cpu=(cpu + ran + 40, cpu + ran + model)
            ),
            optimizer(
                at + input_ms + model, at + input_ms + 100, cpu=(cpu + ran + model, cpu + ran + 100)
            ),
        ]
        at += input_ms + 100 + gap_ms
        cpu += ran + 100
    return events


def trained(workers: int, *args: float, **kwargs: float) -> Loop:
    return loop([iter_(5, 10), settings(workers), *steps(*args, **kwargs)])  # type: ignore[arg-type]


def test_a_healthy_run_is_compute_bound_and_nothing_is_in_the_way() -> None:
    (verdict,) = findings([trained(0, 50, 2.0)], Resources())
    assert verdict.kind == "compute"
    assert verdict.title == "Model compute takes 98 % of the loop"
    assert verdict.share == pytest.approx(100 / 102, rel=0.01)
    assert verdict.confidence > 0.7


def test_computing_batches_in_the_training_process_is_input_cpu() -> None:
    verdict, compute = findings([trained(0, 50, 300.0, busy=0.97)], Resources())
    assert (verdict.kind, compute.kind) == ("input-cpu", "compute")
    assert verdict.share == pytest.approx(0.75, abs=0.001)
    assert verdict.evidence[0] == (
        "The training thread waited 300 ms of every 400 ms step for data;"
        " 97 % of that it computed in this process (num_workers=0)."
    )
    assert (verdict.location.file, verdict.location.line) == ("data.py", 12)
    assert verdict.location.function == "D.__getitem__"
    assert verdict.confidence > 0.9
    assert verdict.measures["workers"] == 0.0


def test_blocked_input_is_input_io_and_says_what_is_not_known() -> None:
    verdict = findings([trained(0, 50, 100.0, busy=0.05)], Resources())[0]
    assert verdict.kind == "input-io"
    assert "95 % of that it was blocked" in verdict.evidence[0]
    assert verdict.missing == (
        "What it waited for was not measured: disk, network or another process.",
    )


def test_bytes_from_the_disk_are_evidence_for_input_io() -> None:
    resources = Resources(program=ProcessUse(1, cpu_cores=0.5, read_bytes_per_s=25e6))
    verdict = findings([trained(0, 50, 100.0, busy=0.1)], resources)[0]
    assert verdict.evidence[1] == "The process read 25.0 MB/s from the disk."
    assert verdict.missing == ()


def test_evidence_that_does_not_separate_gives_little_confidence() -> None:
    clear = findings([trained(0, 50, 100.0, busy=1.0)], Resources())[0]
    unclear = findings([trained(0, 50, 100.0, busy=0.52)], Resources())[0]
    assert unclear.kind == "input-cpu"
    assert clear.confidence > 0.95
    assert unclear.confidence == pytest.approx(0.52, abs=0.02)


def test_a_thread_that_was_kept_from_its_cpu_was_not_blocked() -> None:
    crowded = Resources(program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.2))
    loop = trained(0, 50, 100.0, busy=0.6)
    # Half of the time is input, of which four tenths were off the CPU, all of it without one.
    computing = findings([loop], crowded)[0]
    assert computing.kind == "input-cpu"
    assert computing.confidence > 0.95
    assert computing.measures["busy_share"] == pytest.approx(1.0, abs=0.01)
    assert computing.share == pytest.approx(0.3, abs=0.01)
    blocked = findings([trained(0, 50, 100.0, busy=0.1)], crowded)[0]
    assert blocked.kind == "input-io"
    assert blocked.share == pytest.approx(0.3, abs=0.01)


def test_few_steps_give_little_confidence() -> None:
    many = findings([trained(0, 50, 100.0)], Resources())[0]
    one = findings([trained(0, 1, 100.0)], Resources())[0]
    assert one.kind == many.kind == "input-cpu"
    assert one.confidence < 0.1 < many.confidence


@pytest.mark.parametrize(("cores", "kind"), [(1.9, "input-cpu"), (0.2, "input-io")])
def test_with_workers_their_cpu_time_decides(cores: float, kind: str) -> None:
    resources = Resources(children=ProcessUse(2, cpu_cores=cores, read_bytes_per_s=50e6))
    verdict = findings([trained(2, 50, 100.0, busy=0.0)], resources)[0]
    assert verdict.kind == kind
    assert "from 2 workers" in verdict.evidence[0]


def test_workers_that_wait_for_a_cpu_are_not_blocked() -> None:
    resources = Resources(children=ProcessUse(4, cpu_cores=1.2, run_delay_cores=2.4))
    verdict = findings([trained(4, 50, 100.0, busy=0.0)], resources)[0]
    assert verdict.kind == "input-cpu"
    assert verdict.evidence[1] == (
        "A worker computed 30 % of the time and was ready but without a CPU for another 60 %."
    )


def test_where_all_cpus_are_in_use_workers_wait_for_them_and_not_for_data() -> None:
    resources = Resources(
        cpu_count=2.0, program=ProcessUse(1, cpu_cores=1.0), children=ProcessUse(2, cpu_cores=0.8)
    )
    verdict = findings([trained(2, 50, 100.0, busy=0.0)], resources)[0]
    assert verdict.kind == "input-cpu"
    assert verdict.evidence[2] == "Program and workers together kept 1.8 of 2 CPUs busy."


def test_workers_that_were_not_measured_make_a_guess() -> None:
    verdict = findings([trained(2, 50, 100.0, busy=0.0)], Resources())[0]
    assert verdict.kind == "input-cpu"
    assert verdict.confidence <= 0.5
    assert verdict.missing == (
        "The CPU time of the workers was not measured: computing or waiting is a guess.",
    )


def test_workers_that_were_hardly_seen_make_a_guess_too() -> None:
    resources = Resources(children=ProcessUse(8, seen=0.4, cpu_cores=0.1))
    verdict = findings([trained(2, 50, 100.0, busy=0.0)], resources)[0]
    assert verdict.kind == "input-cpu"
    assert verdict.confidence <= 0.5


def test_starting_workers_for_every_pass_is_its_own_finding() -> None:
    events: list[Event] = []
    at = 10.0
    for epoch in range(5):
        events += [iter_(at, at + 100, epoch), settings(2, epoch)]
        at += 100
        for batch_number in range(4):
            wait = 1000.0 if batch_number == 0 else 1.0
            events += [next_(at, at + wait, epoch), forward(at + wait, at + wait + 5)]
            events += [
                backward(at + wait + 5, at + wait + 9),
                optimizer(at + wait + 9, at + wait + 10),
            ]
            at += wait + 10
        events.append(exhausted(at, at + 1, epoch))
        at += 1
    verdict = findings([loop(events)], Resources())[0]
    assert verdict.kind == "input-worker-startup"
    assert verdict.measures["iterations"] == 5.0


def test_code_between_the_phases_is_python_in_loop() -> None:
    verdict = findings([trained(0, 50, 1.0, gap_ms=50.0)], Resources())[0]
    assert verdict.kind == "python-in-loop"
    assert verdict.share == pytest.approx(49 * 50 / (49 * 151 + 106), abs=0.002)
    assert "was blocked" in verdict.evidence[1]


def test_evaluation_is_validation() -> None:
    events = [iter_(5, 10), settings(0), *steps(20, 1.0)]
    at = 2030.0
    events += [iter_(at, at + 1, 2)]
    for number in range(10):
        start = at + 1 + number * 100
        events += [next_(start, start + 50, 2), in_eval(start + 50, start + 100)]
    verdict = findings([loop(events)], Resources())[0]
    assert verdict.kind == "validation"
    assert verdict.share == pytest.approx(1001 / 3026, abs=0.001)


def test_saves_are_checkpoint_save() -> None:
    events = [*steps(20, 1.0), span(names.SAVE, 2030, 3030, 50_000_000)]
    verdict = findings([loop(events)], Resources())[0]
    assert verdict.kind == "checkpoint-save"
    assert verdict.evidence == ("1 save took 1.00 s each, 50.0 MB at 50.0 MB/s.",)


def test_collections_of_one_percent_are_a_finding() -> None:
    events: list[Event] = []
    for at in range(0, 5000, 100):
        events += [next_(at, at + 1), span(names.GC, at + 5, at + 8, 2), forward(at + 1, at + 50)]
        events += [backward(at + 50, at + 90), optimizer(at + 90, at + 100)]
    verdict = findings([loop(events)], Resources())[0]
    assert verdict.kind == "gc"
    assert verdict.share == pytest.approx(0.03)
    assert verdict.evidence[0] == "Python collected garbage 50 times: 50 of generation 2."


def test_a_large_optimizer_is_named_after_the_computation() -> None:
    compute, slow = findings([trained(0, 50, 1.0, optimizer_ms=30.0)], Resources())
    assert (compute.kind, slow.kind) == ("compute", "optimizer")
    assert slow.share == pytest.approx(30 / 101, abs=0.002)
    assert [f.kind for f in findings([trained(0, 50, 1.0)], Resources())] == ["compute"]


def test_the_largest_obstacle_comes_first() -> None:
    kinds = [f.kind for f in findings([trained(0, 50, 60.0, gap_ms=30.0)], Resources())]
    assert kinds == ["input-cpu", "python-in-loop", "compute"]


def test_oversubscription_is_named_only_where_threads_wait_for_cpus() -> None:
    events = []
    for at in range(0, 5000, 100):  # computation in which the thread ran half of the time
        events += [forward(at, at + 40, cpu=(at / 2, at / 2 + 20))]
        events += [backward(at + 40, at + 90, cpu=(at / 2 + 20, at / 2 + 45))]
        events += [optimizer(at + 90, at + 100, cpu=(at / 2 + 45, at / 2 + 50))]
    made = loop(events)
    crowded = Resources(cpu_count=2, program=ProcessUse(1, cpu_cores=1.9, run_delay_cores=3.0))
    calm = Resources(cpu_count=8, program=ProcessUse(1, cpu_cores=1.9, run_delay_cores=0.1))
    assert findings([made], crowded)[0].kind == "oversubscription"
    assert [f.kind for f in findings([made], calm)] == ["compute"]


def test_swapping_is_named_only_with_pages_and_pressure() -> None:
    made = trained(0, 50, 1.0)
    short = Resources(swap_in_pages_per_s=2000.0, pressure_memory_share=0.3)
    assert findings([made], short)[0].kind == "swap"
    assert [f.kind for f in findings([made], short._replace(swap_in_pages_per_s=0.0))] == [
        "compute"
    ]


def test_without_a_loop_there_is_no_finding() -> None:
    assert findings([], Resources()) == []


def test_severity_follows_the_thresholds_of_the_kind() -> None:
    assert severity("input-cpu", 0.0) == 0.0
    assert severity("input-cpu", 0.05) == pytest.approx(0.4)
    assert severity("input-cpu", 0.125) == pytest.approx(0.55)
    assert severity("input-cpu", 0.20) == pytest.approx(0.7)
    assert severity("input-cpu", 0.60) == pytest.approx(0.85)
    assert severity("input-cpu", 1.0) == 1.0
    assert severity("gc", 0.01) == pytest.approx(0.4)


def test_separation_is_zero_in_the_middle() -> None:
    assert [separation(share) for share in (None, 0.5, 0.75, 1.0, 0.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_two_ranks_are_judged_together() -> None:
    fast, slow = trained(0, 50, 10.0), replace(trained(0, 50, 300.0), rank=1)
    verdict = findings([fast, slow], Resources())[0]
    assert verdict.share == pytest.approx((50 * 310) / (50 * 510), abs=0.002)
