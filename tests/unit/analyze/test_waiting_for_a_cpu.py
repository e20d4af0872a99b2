"""Waiting for a CPU: who had it, what it cost, and what is left of the other causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.analyze.whole import Whole
from stepscope.model import traits
from stepscope.model.details import Details
from stepscope.model.phases import Phase
from tests.unit.analyze.made import THREAD
from tests.unit.analyze.made_evidence import found, line, node, stacks, trained


def crowded(
    delay: float, *, used: float = 0.5, busy: float = 1.0, threads: float = 0.0
) -> Resources:
    """Two CPUs. `delay`: of the training thread; `threads`: of others of this run that had none."""
    program = ProcessUse(1, cpu_cores=used, run_delay_cores=delay + threads, main_delay_cores=delay)
    return Resources(cpu_count=2.0, cpu_busy_share=busy, program=program)


def test_cpus_that_other_programs_use_are_a_cause_with_its_share() -> None:
    kinds = found(trained(ran=0.5), None, crowded(0.49))
    assert list(kinds) == ["busy-machine", "compute"]
    assert kinds["busy-machine"].share == pytest.approx(0.49, abs=0.01)
    assert kinds["compute"].share == pytest.approx(0.5, abs=0.02)
    assert kinds["busy-machine"].evidence[0] == "Other programs kept 1.5 of 2 CPUs busy."


def test_a_sleep_keeps_its_share_on_a_busy_machine() -> None:
    # 100 ms of computing that took 200, and a sleep of 100 ms: a third of each.
    kinds = found(trained(ran=0.5, gap=100.0 / 2, gap_ran=0.0), None, crowded(0.33))
    assert kinds["busy-machine"].share == pytest.approx(0.33, abs=0.01)
    assert kinds["python-in-loop"].share == pytest.approx(0.33, abs=0.02)
    assert "gil" not in kinds


def test_waiting_without_other_programs_is_not_their_fault() -> None:
    assert "busy-machine" not in found(trained(ran=0.9), None, crowded(0.1, busy=0.3))


def test_own_threads_that_fit_the_cpus_are_not_too_many_on_a_busy_machine() -> None:
    kinds = found(trained(ran=0.4), None, crowded(0.59, used=0.8, threads=0.6))
    assert next(iter(kinds)) == "busy-machine"
    assert "oversubscription" not in kinds


def test_own_threads_that_exceed_the_cpus_are_too_many() -> None:
    kinds = found(trained(ran=0.25), None, crowded(0.74, used=1.9, threads=5.3))
    assert next(iter(kinds)) == "oversubscription"
    assert "busy-machine" not in kinds


def test_a_cpu_that_nobody_was_seen_to_take_is_taken_off_and_not_named() -> None:
    unknown = Resources(program=ProcessUse(1, cpu_cores=0.5, run_delay_cores=0.49))
    assert list(found(trained(ran=0.5), None, unknown)) == ["compute"]
    whole = Whole([trained(ran=0.5)], unknown)
    assert whole.cpu_share(Phase.FORWARD) == pytest.approx(1.0, abs=0.02)


def test_the_delay_divides_by_the_time_on_the_cpu() -> None:
    # A step of 1 + 100 + 50 ms, half of the 100 ran; the gap slept.
    whole = Whole([trained(ran=0.5, gap=50.0, gap_ran=0.0)], crowded(0.3))
    assert whole.wall(Phase.PYTHON_BETWEEN) == pytest.approx(
        whole.lasted(Phase.PYTHON_BETWEEN), rel=0.01
    )
    assert sum(whole.share(phase) for phase in Phase) == pytest.approx(0.7, abs=0.001)


def test_what_other_threads_waited_is_not_the_training_threads_wait() -> None:
    resources = crowded(0.2, used=0.8, threads=0.5)
    main = replace(trained(ran=0.5), pid=THREAD)
    assert Whole([main], resources).cpu_wait.thread == pytest.approx(0.2)
    elsewhere = replace(trained(ran=0.5), pid=THREAD + 1)  # how long is not known: all, at most
    assert Whole([elsewhere], resources).cpu_wait.thread == pytest.approx(0.5, abs=0.01)


def test_workers_without_a_cpu_are_part_of_it() -> None:
    resources = crowded(0.0)._replace(children=ProcessUse(2, cpu_cores=0.5, run_delay_cores=0.5))
    kinds = found(trained(2, wait=100.0), None, resources)
    assert kinds["busy-machine"].share == pytest.approx(0.25, abs=0.01)
    assert kinds["input-cpu"].share == pytest.approx(0.25, abs=0.01)


RANKS = {traits.WORLD_SIZE: 2}
QUIET = Resources(cpu_count=2.0, cpu_busy_share=0.6, program=ProcessUse(1, 1.0, 0.6, 0.0, 0.0))


def test_a_thread_that_is_blocked_where_it_computes_waits_for_other_ranks() -> None:
    call = stacks(Phase.FORWARD, line("train.py", 30, "train", 1.0))
    quiet = QUIET._replace(program=ProcessUse(1, cpu_cores=0.9, run_delay_cores=0.0))
    kinds = found(trained(ran=0.6), Details(traits=RANKS, stacks=(call,)), quiet)
    assert kinds["communication"].share == pytest.approx(0.4, abs=0.01)
    assert kinds["compute"].share == pytest.approx(0.6, abs=0.02)
    assert "gil" not in kinds


def test_waiting_for_other_ranks_takes_nothing_from_a_sleep_between_the_phases() -> None:
    kinds = found(trained(ran=0.6, gap=100.0, gap_ran=0.0), Details(traits=RANKS), QUIET)
    assert kinds["communication"].share == pytest.approx(0.2, abs=0.01)
    assert kinds["python-in-loop"].share == pytest.approx(0.5, abs=0.01)
    assert kinds["compute"].share == pytest.approx(0.3, abs=0.01)


def test_one_rank_has_nobody_to_wait_for() -> None:
    alone = Details(traits={traits.WORLD_SIZE: 1})
    assert "communication" not in found(trained(ran=0.6), alone, QUIET)


def test_waiting_for_a_cpu_is_not_communication() -> None:
    kinds = found(trained(ran=0.6), Details(traits=RANKS), crowded(0.39))
    assert list(kinds) == ["busy-machine", "compute"]


def test_waiting_for_threads_of_ones_own_is_not_communication() -> None:
    """Blocked 30 % of the loop, while threads of an operator had no CPU 25 % of it."""
    main, ranks = replace(trained(ran=0.7), pid=THREAD), Details(traits=RANKS)
    alone = found(main, ranks, crowded(0.0, busy=0.3))
    beside = found(main, ranks, crowded(0.0, busy=0.3, threads=0.25))
    assert alone["communication"].share == pytest.approx(0.3, abs=0.02)
    assert beside["communication"].share == pytest.approx(0.05, abs=0.02)
    assert beside["compute"].share == pytest.approx(0.94, abs=0.02)


def test_a_wait_of_workers_for_each_other_stays_with_the_input() -> None:
    """Workers and training want more CPUs than there are: other programs account for a part of the
    wait only, and the rest is what batches cost."""
    children = ProcessUse(4, cpu_cores=1.0, run_delay_cores=0.9)
    resources = crowded(0.0)._replace(children=children)
    kinds = found(trained(4, wait=100.0), None, resources)
    assert sum(one.share for one in kinds.values()) == pytest.approx(1.0, abs=0.02)


def test_between_the_phases_stacks_show_which_wait_is_a_collective() -> None:
    reduce = node("all_reduce", "/lib/torch/distributed/distributed_c10d.py", 750)
    flame = node("", "", 1000, node("train", "train.py", 1000, reduce))
    between = stacks(Phase.PYTHON_BETWEEN, line("train.py", 41, "train", 1.0), flame=flame)
    kinds = found(trained(gap=100.0, gap_ran=0.0), Details(traits=RANKS, stacks=(between,)), QUIET)
    assert kinds["communication"].share == pytest.approx(0.75 * 0.5, abs=0.01)
    assert kinds["communication"].location.line == 41
    assert kinds["python-in-loop"].share == pytest.approx(0.25 * 0.5, abs=0.01)
