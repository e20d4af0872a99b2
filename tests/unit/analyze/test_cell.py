from __future__ import annotations

from stepscope.analyze.block import Thresholds, block_findings
from stepscope.analyze.cell import judge_cell
from stepscope.analyze.operations import OperationFold, OperationUse
from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.model import names
from stepscope.model.finding import Finding
from stepscope.model.metrics import MB, PerformanceMetrics
from stepscope.model.summary import PhaseShare, StepsSummary, Summary
from tests.unit.analyze.made import MS, batch, sample

PID = 41
NO_LOOP = Summary(run={})
LOOP = Summary(
    run={},
    steps=StepsSummary(count=7),
    breakdown=(PhaseShare("input wait", 60.0, 0.6, None), PhaseShare("gc", 0.0, 0.0, None)),
)


def used(wall_ms: float = 200.0) -> OperationUse:
    wall_ns = round(wall_ms * MS)
    memory = ((5 * MS, 100.0 * MB), (5 * MS + wall_ns, 150.0 * MB))
    return OperationUse(
        "1/work", calls=1, wall_ns=wall_ns, memory=memory, stretches=((5 * MS, 5 * MS + wall_ns),)
    )


def measured(cpu_s: float) -> PerformanceMetrics:
    return PerformanceMetrics(operation="work", cpu_time=cpu_s)


def test_a_cell_without_a_loop_computes_and_waits() -> None:
    cell = judge_cell(used(), measured(0.05), NO_LOOP, [])
    assert [(part.phase, part.ms, part.share) for part in cell.parts] == [
        ("computing", 50.0, 0.25),
        ("waiting", 150.0, 0.75),
    ]
    assert cell.verdict == "It waited 75 % of 200 ms; what for was not measured."


def test_several_cpus_at_once_compute_all_of_the_time_and_not_more() -> None:
    cell = judge_cell(used(), measured(0.7), NO_LOOP, [])
    assert [(part.phase, part.share) for part in cell.parts] == [("computing", 1.0)]
    assert cell.verdict == "It computed 100 % of 200 ms: no limit was reached."


def test_the_first_finding_is_the_verdict_and_the_loop_s_phases_are_the_parts() -> None:
    found = Finding("input-cpu", "input-bound: it waits", 0.6, 1.0, 0.9)
    cell = judge_cell(used(), measured(0.05), LOOP, [found])
    assert cell.verdict == "Input-bound: it waits."
    assert [part.phase for part in cell.parts] == ["input wait"]
    assert cell.steps.count == 7


def test_what_is_over_in_no_time_is_not_judged() -> None:
    found = Finding("compute", "CPU-bound", 1.0, 1.0, 0.9)
    cell = judge_cell(used(wall_ms=0.024), measured(0.000024), NO_LOOP, [found])
    assert cell.verdict == "It took 24 µs: too short to be judged."
    assert (cell.findings, cell.parts, cell.memory) == ((), (), ())


def test_memory_is_in_megabytes_from_the_start_of_the_cell() -> None:
    assert judge_cell(used(), measured(0.05), NO_LOOP, []).memory == ((0.0, 100.0), (0.2, 150.0))


def test_idle_code_that_waits_a_little_for_a_cpu_is_not_kept_from_its_work_by_that() -> None:
    program = ProcessUse(processes=1, run_delay_cores=0.002)
    use = OperationUse("1/work", wall_ns=100 * MS, user_ns=0, system_ns=round(0.2 * MS))
    use = OperationUse(**(vars(use) | {"resources": Resources(program=program)}))
    assert block_findings(use, Thresholds(80, 80, 90)) == []


def test_a_block_begins_with_what_was_sampled_last_before_it() -> None:
    fold = OperationFold(PID)
    name = names.PROCESS_RSS_BYTES
    samples = [(9.999, 20.0), (300.0, 50.0), (500.001, 220.0)]
    fold.update(batch([sample(name, at, mb * MB, PID) for at, mb in samples]))
    use = fold.between("1/work", 10 * MS, 500 * MS)
    assert use.initial_rss_bytes is not None
    assert use.final_rss_bytes is not None
    assert round(use.initial_rss_bytes / MB) == 20
    assert round(use.final_rss_bytes / MB) == 220
    assert [time_ns // MS for time_ns, _ in use.memory] == [10, 300, 500]
