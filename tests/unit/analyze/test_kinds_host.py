from __future__ import annotations

import pytest

from stepscope.analyze.resources import GpuUse, ProcessUse, Resources
from stepscope.model import names, traits
from stepscope.model.details import OTHER_THREADS, Details, HotLine
from stepscope.model.finding import Location
from stepscope.model.phases import Phase
from tests.unit.analyze.made import in_eval, loop, span, training
from tests.unit.analyze.made_evidence import found, line, node, stacks, trained

MODULE = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py"
GAP = 100.0
HALF = 0.5  # a gap of 100 ms beside 100 ms of computation


def test_python_between_the_phases_is_located_by_the_stacks() -> None:
    between = stacks(
        Phase.PYTHON_BETWEEN,
        line("train.py", 90, "main", 0.3),
        line("metrics.py", 12, "confusion", 0.5),
        line("metrics.py", 14, "confusion", 0.2),
    )
    kinds = found(trained(gap=GAP), Details(stacks=(between,)))
    verdict = kinds["python-in-loop"]
    assert verdict.share == pytest.approx(HALF, abs=0.01)
    assert (verdict.location.file, verdict.location.line) == ("metrics.py", 12)
    assert verdict.missing == ()
    assert "70 % of it lies in confusion, metrics.py:12." in verdict.evidence
    assert "logging-io" not in kinds


def test_a_function_counts_by_all_its_lines() -> None:
    between = stacks(
        Phase.PYTHON_BETWEEN,
        line("train.py", 90, "main", 0.4),
        *(line("metrics.py", number, "confusion", 0.12 + number / 1000) for number in range(5)),
    )
    kinds = found(trained(gap=GAP), Details(stacks=(between,)))
    assert kinds["python-in-loop"].location == Location("metrics.py", 4, "confusion")


def test_time_of_libraries_alone_has_no_place() -> None:
    nobody = HotLine(Location(file=""), 1.0, 0.0, 1.0, 100)
    kinds = found(trained(gap=GAP), Details(stacks=(stacks(Phase.PYTHON_BETWEEN, nobody),)))
    assert kinds["python-in-loop"].location == Location()
    assert kinds["python-in-loop"].missing


def test_saving_by_hand_is_checkpoint_save() -> None:
    flame = node(
        "main", "train.py", 1000,
        node("offer", "keep.py", 700, node("write", "/lib/python3.11/gzip.py", 700)),
        node("log", "train.py", 300),
    )  # fmt: skip
    between = stacks(Phase.PYTHON_BETWEEN, line("keep.py", 9, "offer", 0.7), flame=flame)
    kinds = found(trained(gap=GAP), Details(stacks=(between,)))
    assert kinds["checkpoint-save"].share == pytest.approx(HALF * 0.7, abs=0.01)
    assert kinds["checkpoint-save"].location.function == "offer"
    assert kinds["logging-io"].share == pytest.approx(HALF * 0.3, abs=0.01)
    assert "python-in-loop" not in kinds


def test_time_in_functions_that_write_is_logging_io() -> None:
    flame = node(
        "main", "train.py", 1000,
        node("info", "/lib/python3.11/logging/__init__.py", 600),
        node("confusion", "metrics.py", 400),
    )  # fmt: skip
    between = stacks(Phase.PYTHON_BETWEEN, line("train.py", 33, "log", 0.6), flame=flame)
    kinds = found(trained(gap=GAP), Details(stacks=(between,)))
    assert kinds["logging-io"].share == pytest.approx(HALF * 0.6, abs=0.01)
    assert kinds["python-in-loop"].share == pytest.approx(HALF * 0.4, abs=0.01)
    assert kinds["logging-io"].location.line == 33


def test_functions_that_only_sound_like_writing_are_not_logging() -> None:
    flame = node("main", "train.py", 1000, node("log_softmax", "loss.py", 600))
    between = stacks(Phase.PYTHON_BETWEEN, line("loss.py", 3, "log_softmax", 0.6), flame=flame)
    kinds = found(trained(gap=GAP), Details(stacks=(between,)))
    assert "logging-io" not in kinds


def test_bytes_to_a_disk_while_blocked_are_logging_io_with_less_confidence() -> None:
    writing = Resources(program=ProcessUse(1, write_bytes_per_s=5e7))
    kinds = found(trained(gap=GAP, gap_ran=0.1), None, writing)
    assert kinds["logging-io"].share == pytest.approx(HALF * 0.9, abs=0.01)
    assert kinds["logging-io"].confidence < 0.6
    assert kinds["logging-io"].missing
    computing = found(trained(gap=GAP, gap_ran=0.9), None, writing)
    assert list(computing) == ["python-in-loop", "compute"]


def test_a_gpu_that_runs_empty_between_values_is_device_sync() -> None:
    idle = Resources(gpus=(GpuUse(0, busy_share=0.5),))
    details = Details(traits={traits.ITEM_CALLS: 3})
    kinds = found(trained(gap=GAP, gap_ran=0.2), details, idle)
    assert kinds["device-sync"].share == pytest.approx(HALF * 0.8, abs=0.01)
    assert kinds["python-in-loop"].share == pytest.approx(HALF * 0.2, abs=0.01)
    assert "device-sync" not in found(trained(gap=GAP, gap_ran=0.2), details)


def test_threads_that_take_turns_with_training_are_gil() -> None:
    turns = Resources(cpu_count=4, program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.02))
    kinds = found(trained(ran=0.5), None, turns)
    # Half of 100 ms a step was lost, less 2 % of the loop that it may have waited for a CPU.
    assert kinds["gil"].share == pytest.approx(0.5 * 100 / 101 - 0.02, abs=0.01)
    assert kinds["gil"].confidence > 0.8
    assert "oversubscription" not in kinds


def test_the_lock_is_held_by_the_function_that_other_threads_run() -> None:
    turns = Resources(cpu_count=4, program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.02))
    between = stacks(Phase.PYTHON_BETWEEN, line("train.py", 41, "main", 1.0))
    others = stacks(
        OTHER_THREADS,
        line("monitor.py", 29, "Monitor.summarise", 0.9),
        line("monitor.py", 24, "Monitor.run", 0.1),
        where="thread",
    )
    known = found(trained(ran=0.5), Details(stacks=(between, others)), turns)["gil"]
    assert known.location == Location("monitor.py", 29, "Monitor.summarise")
    assert known.missing == ()
    assert known.evidence[-1] == (
        "90 % of the time in which they ran Python lies in Monitor.summarise, monitor.py:29."
    )
    unknown = found(trained(ran=0.5), None, turns)["gil"]
    assert unknown.missing == ("Which thread held the lock was not measured.",)


def test_threads_that_never_ran_python_hold_no_lock() -> None:
    turns = Resources(cpu_count=4, program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.02))
    only_training = Details(stacks=(stacks(Phase.PYTHON_BETWEEN, line("t.py", 41, "main", 1.0)),))
    assert "gil" not in found(trained(ran=0.5), only_training, turns)


def test_no_more_is_lost_to_the_lock_than_other_threads_ran_python() -> None:
    turns = Resources(cpu_count=4, program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.02))
    between = stacks(Phase.PYTHON_BETWEEN, line("train.py", 41, "main", 1.0))
    others = stacks(OTHER_THREADS, line("monitor.py", 29, "run", 1.0), where="thread")
    # Samples of one second, in a loop of 50 steps of 101 ms.
    kinds = found(trained(ran=0.5), Details(stacks=(between, others)), turns)
    assert kinds["gil"].share == pytest.approx(1.0 / (50 * 0.101), abs=0.01)


def test_threads_that_run_at_once_are_not_gil() -> None:
    at_once = Resources(cpu_count=4, program=ProcessUse(1, cpu_cores=2.0, run_delay_cores=0.02))
    assert list(found(trained(ran=0.5), None, at_once)) == ["compute"]


def test_what_the_lock_costs_is_not_laid_to_python_in_loop_too() -> None:
    turns = Resources(cpu_count=4, program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.0))
    kinds = found(trained(gap=GAP, ran=0.5, gap_ran=0.5), None, turns)
    assert kinds["gil"].share + kinds["python-in-loop"].share == pytest.approx(0.75, abs=0.01)


def test_waiting_for_a_cpu_between_the_phases_is_not_the_programs_own_code() -> None:
    crowded = Resources(program=ProcessUse(1, run_delay_cores=0.5))
    assert "python-in-loop" not in found(trained(gap=20.0, ran=0.7, gap_ran=0.02), None, crowded)
    slept = Resources(program=ProcessUse(1, run_delay_cores=0.01))
    assert "python-in-loop" in found(trained(gap=20.0, ran=0.99, gap_ran=0.02), None, slept)


def test_more_threads_than_cpus_are_oversubscription_and_not_gil() -> None:
    crowded = Resources(cpu_count=2, program=ProcessUse(1, cpu_cores=1.9, run_delay_cores=6.0))
    details = Details(traits={traits.THREADS: 8})
    kinds = found(trained(ran=0.25), details, crowded)
    assert kinds["oversubscription"].share == pytest.approx(0.75 * 100 / 101, abs=0.01)
    assert "gil" not in kinds
    assert "torch computes with 8 threads on 2 CPUs." in kinds["oversubscription"].evidence


def test_more_threads_than_cpus_cost_where_the_loop_computes() -> None:
    crowded = Resources(cpu_count=2, program=ProcessUse(1, cpu_cores=1.9, run_delay_cores=6.0))
    model = node("_call_impl", MODULE, 500, node("Net.forward", "net.py", 500))
    flames = {
        Phase.FORWARD: node("forward", "", 1000, node("train", "train.py", 1000, model)),
        Phase.BACKWARD: node("backward", "", 1000, node("train", "train.py", 1000)),
    }
    net = line("net.py", 30, "Net.forward", 1.0)
    details = Details(stacks=tuple(stacks(phase, net, flame=of) for phase, of in flames.items()))
    verdict = found(trained(ran=0.25), details, crowded)["oversubscription"]
    assert verdict.location == Location("train.py", 1, "train")


def test_evaluation_is_located_at_the_line_that_calls_the_model() -> None:
    events = [*training(10), in_eval(1000, 1500), *training(10, 1500)]
    model = node("_call_impl", MODULE, 900, node("Net.forward", "net.py", 900))
    flame = node("evaluation", "", 1000, node("evaluate", "train.py", 950, model))
    net = line("net.py", 30, "Net.forward", 0.9)
    evaluation = stacks(Phase.EVALUATION, net, flame=flame)
    verdict = found(loop(events), Details(stacks=(evaluation,)))["validation"]
    assert verdict.location == Location("train.py", 1, "evaluate")
    assert verdict.evidence[-1] == "95 % of it lies in evaluate, train.py:1."


@pytest.mark.parametrize(
    ("evaluated_ms", "said"),
    [(60, "60 % of a training step."), (250, "2.5 training steps."), (4000, "40 training steps.")],
)
def test_evaluation_is_compared_with_steps_that_may_be_long(evaluated_ms: int, said: str) -> None:
    verdict = found(loop([*training(10), in_eval(1000, 1000 + evaluated_ms)]))["validation"]
    assert any(sentence.endswith(f"as long as {said}") for sentence in verdict.evidence)


def test_without_a_flame_evaluation_is_located_at_its_dearest_line() -> None:
    events = [*training(10), in_eval(1000, 1500), *training(10, 1500)]
    evaluation = stacks(Phase.EVALUATION, line("net.py", 30, "Net.forward", 0.9))
    verdict = found(loop(events), Details(stacks=(evaluation,)))["validation"]
    assert verdict.location == Location("net.py", 30, "Net.forward")


def test_own_page_faults_tie_swapping_to_the_run() -> None:
    short = Resources(swap_in_pages_per_s=2000.0, pressure_memory_share=0.3)
    loose = found(trained(), None, short)["swap"]
    own = short._replace(program=ProcessUse(1, major_faults_per_s=1800.0))
    tied = found(trained(), None, own)["swap"]
    assert tied.share == loose.share == 0.3
    assert tied.confidence > loose.confidence
    assert not tied.missing


@pytest.mark.parametrize(
    ("name", "phase", "kind"),
    [
        (names.SAVE, Phase.CHECKPOINT_SAVE, "checkpoint-save"),
        (names.TRANSFER, Phase.TRANSFER, "transfer"),
        (names.GC, Phase.GC, "gc"),
    ],
)
def test_phases_of_the_host_are_located(name: str, phase: Phase, kind: str) -> None:
    events = [*training(10), span(name, 1000, 1500, 2), *training(10, 1500)]
    details = Details(stacks=(stacks(phase, line("train.py", 70, "save_all", 1.0)),))
    kinds = found(loop(events), details)
    assert kinds[kind].share == pytest.approx(500 / 2500, abs=0.01)
    assert kinds[kind].location.line == 70


def test_a_healthy_host_finds_nothing() -> None:
    calm = Resources(
        cpu_count=4,
        program=ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.01, write_bytes_per_s=1e4),
        swap_in_pages_per_s=0.0,
        pressure_memory_share=0.0,
    )
    details = Details(traits={traits.ITEM_CALLS: 1, traits.THREADS: 2})
    assert list(found(trained(gap=1.0), details, calm)) == ["compute"]
