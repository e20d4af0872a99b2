from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepscope.analyze.module_use import ModuleUse
from stepscope.analyze.phases import CpuClock, Timeline, attribute, sum_up
from stepscope.analyze.spans import (
    BACKWARD,
    FORWARD,
    GC,
    INPUT_ITER,
    INPUT_NEXT,
    OPTIMIZER,
    OPTIMIZER_REST,
    OPTIMIZER_SCALE,
    PHASES,
    SAVE,
    TRANSFER,
    LoopSpan,
    SpanRow,
)
from stepscope.model import names
from stepscope.model.phases import Phase
from tests.unit.analyze.made import (
    Event,
    backward,
    cpu_ms,
    exhausted,
    forward,
    in_eval,
    iter_,
    loop,
    next_,
    no_grad,
    optimizer,
    phases,
    sample,
    span,
    step,
    training,
)


def test_recomputation_inside_backward_is_backward() -> None:
    events = [next_(0, 10), forward(10, 20), forward(30, 40), backward(20, 60), optimizer(60, 70)]
    assert phases(loop(events)) == {
        "input wait": 10.0,
        "forward": 10.0,
        "backward": 40.0,
        "optimizer": 10.0,
    }


def test_a_collection_is_carved_out_of_what_it_interrupts() -> None:
    events = [
        span(names.GC, 2, 5, 2), next_(0, 10),
        span(names.GC, 12, 13, 0), forward(10, 20),
        backward(20, 30), span(names.GC, 31, 35, 1), optimizer(36, 40),
    ]  # fmt: skip
    found = loop(events)
    assert phases(found) == {
        "input wait": 7.0,
        "forward": 9.0,
        "backward": 10.0,
        "optimizer": 4.0,
        "gc": 8.0,
        "python between": 2.0,
    }
    assert found.gc.collections == {2: 1, 0: 1, 1: 1}
    assert found.gc.longest_ns == 4_000_000


def test_everything_inside_an_input_span_is_input_wait() -> None:
    events = [
        span(names.TRANSFER, 2, 5, 1000), forward(5, 8, module=50), next_(0, 10),
        forward(10, 20), backward(20, 30), optimizer(30, 40),
    ]  # fmt: skip
    assert phases(loop(events))["input wait"] == 10.0


def test_a_transfer_inside_forward_is_transfer() -> None:
    events = [
        next_(0, 10),
        span(names.TRANSFER, 12, 15, 4096),
        forward(10, 20),
        backward(20, 30),
        optimizer(30, 40),
    ]
    found = loop(events)
    assert phases(found)["transfer"] == 3.0
    assert phases(found)["forward"] == 7.0
    assert found.transferred_bytes == 4096


def test_a_save_is_checkpoint_save_and_its_bytes_are_counted() -> None:
    found = loop([*training(1), span(names.SAVE, 100, 150, 5000), *training(1, at=150)])
    assert phases(found)["checkpoint save"] == 50.0
    assert (found.saves, found.saved_bytes) == (1, 5000)


def test_the_cpu_time_between_forward_and_backward_is_forward_and_the_rest_is_python() -> None:
    events = [
        next_(0, 10, cpu=(0, 1)),
        forward(10, 20, cpu=(1, 11)),
        backward(50, 60, cpu=(23, 33)),  # the gap: 30 ms, 12 of them on the CPU
        optimizer(60, 70, cpu=(33, 43)),
    ]
    found = loop(events)
    assert phases(found) == {
        "input wait": 10.0,
        "forward": 22.0,
        "backward": 10.0,
        "optimizer": 10.0,
        "python between": 18.0,
    }
    assert cpu_ms(found, Phase.FORWARD) == 22.0
    assert cpu_ms(found, Phase.PYTHON_BETWEEN) == 0.0
    assert cpu_ms(found, Phase.INPUT_WAIT) == 1.0


def test_zeroing_gradients_before_the_backward_does_not_hide_the_loss() -> None:
    events = [
        next_(0, 10, cpu=(0, 10)),
        forward(10, 20, cpu=(10, 20)),
        span(names.OPTIMIZER_ZERO, 25, 30, cpu=(25, 30)),
        backward(35, 45, cpu=(35, 45)),
        optimizer(45, 50, cpu=(45, 50)),
    ]
    assert phases(loop(events)) == {
        "input wait": 10.0,
        "forward": 20.0,
        "backward": 10.0,
        "optimizer": 10.0,
    }


def test_a_backward_without_a_forward_takes_the_cpu_time_before_it_as_forward() -> None:
    events = [
        next_(0, 10, cpu=(0, 10)),
        backward(40, 50, cpu=(35, 45)),  # 30 ms before it, 25 of them on the CPU
        optimizer(50, 60, cpu=(45, 55)),
    ]
    found = loop(events)
    assert phases(found)["forward"] == 25.0
    assert phases(found)["python between"] == 5.0
    assert found.blind_steps == 1
    assert loop(training(3)).blind_steps == 0


def test_cpu_time_of_spans_without_a_clock_is_spread_evenly() -> None:
    events = [
        next_(0, 10, cpu=(0, 10)), forward(10, 20, cpu=(10, 20)), backward(20, 30, cpu=(20, 30)),
        optimizer(30, 40, cpu=(30, 40)),
        span(names.SAVE, 50, 80),  # between 40 and 90 the thread ran 20 of 50 ms
        next_(90, 100, cpu=(60, 70)), forward(100, 110, cpu=(70, 80)),
        backward(110, 120, cpu=(80, 90)), optimizer(120, 130, cpu=(90, 100)),
    ]  # fmt: skip
    found = loop(events)
    assert cpu_ms(found, Phase.CHECKPOINT_SAVE) == 12.0
    assert cpu_ms(found, Phase.PYTHON_BETWEEN) == 8.0


def test_without_any_reading_of_the_cpu_clock_cpu_time_is_absent() -> None:
    events = [next_(0, 10), forward(10, 20), backward(20, 30), optimizer(30, 40)]
    assert cpu_ms(loop(events), Phase.INPUT_WAIT) is None


def evaluation(at: float, iterator: int = 2) -> list[Event]:
    """100 ms of a loader iteration without gradients."""
    return [
        iter_(at, at + 10, iterator),
        next_(at + 10, at + 30, iterator), no_grad(at + 30, at + 50),
        next_(at + 55, at + 75, iterator), no_grad(at + 75, at + 95),
        exhausted(at + 95, at + 100, iterator),
    ]  # fmt: skip


def test_an_evaluation_loop_is_evaluation_from_its_start_to_its_end() -> None:
    found = loop([*training(2), *evaluation(200), *training(2, at=300)])
    assert found.steps == 4
    assert phases(found)["evaluation"] == 100.0
    assert phases(found)["input wait"] == 120.0
    assert found.loaders[0].batches == 4


def test_evaluation_after_the_last_step_belongs_to_the_loop() -> None:
    found = loop([*training(2), *evaluation(210), span(names.SAVE, 320, 330)])
    assert (found.steps, found.end_ns) == (2, 330_000_000)
    assert phases(found)["evaluation"] == 100.0
    assert phases(found)["checkpoint save"] == 10.0
    assert phases(found)["python between"] == 50.0


def test_collections_are_carved_out_of_evaluation_too() -> None:
    events = evaluation(200)
    events.insert(3, span(names.GC, 251, 254, 2))
    found = loop([*training(2), *events, *training(2, at=300)])
    assert (phases(found)["evaluation"], phases(found)["gc"]) == (97.0, 3.0)


def test_evaluation_inside_a_training_iteration_leaves_its_batch_to_training() -> None:
    late = [
        next_(200, 220),
        *evaluation(220),
        forward(320, 330),
        backward(330, 340),
        optimizer(340, 350),
    ]
    found = loop([*training(2), *late])
    assert phases(found)["evaluation"] == 100.0
    assert phases(found)["input wait"] == 80.0


def test_evaluation_that_is_left_early_ends_with_its_last_forward() -> None:
    events = [*evaluation(200)[:-1], *step(300)]
    found = loop([*training(2), *events])
    assert phases(found)["evaluation"] == 95.0


def test_evaluation_by_one_batch_and_a_break_is_evaluation() -> None:
    found = loop([*training(2), *evaluation(200)[:3], *step(300)])
    assert phases(found)["evaluation"] == 50.0


def test_zipped_evaluation_loaders_are_one_evaluation() -> None:
    events = [iter_(200, 205, 2), iter_(205, 210, 3)]
    for at in (210, 250):
        events += [next_(at, at + 10, 2), next_(at + 10, at + 20, 3), no_grad(at + 20, at + 40)]
    events.append(exhausted(290, 300, 2))
    assert phases(loop([*training(2), *events, *step(300)]))["evaluation"] == 100.0


def test_a_teacher_without_gradients_is_forward_and_not_evaluation() -> None:
    events = [
        next_(0, 10), no_grad(10, 30, module=50), forward(30, 40), backward(40, 60),
        optimizer(60, 70),
        next_(70, 80), no_grad(80, 100, module=50), forward(100, 110), backward(110, 130),
        optimizer(130, 140),
    ]  # fmt: skip
    assert phases(loop(events)) == {
        "input wait": 20.0,
        "forward": 60.0,
        "backward": 40.0,
        "optimizer": 20.0,
    }


def test_a_trained_module_in_eval_mode_is_evaluation_without_a_loader_too() -> None:
    events = [*training(2), in_eval(205, 225), in_eval(230, 250), *training(1, at=250)]
    found = loop(events)
    assert phases(found)["evaluation"] == 40.0
    assert phases(found)["python between"] == 55.0


def test_a_rollout_of_the_trained_module_in_train_mode_is_forward() -> None:
    rollout = [no_grad(at, at + 5) for at in range(200, 300, 10)]
    found = loop([*training(2), *rollout, *training(2, at=300)])
    assert "evaluation" not in phases(found)
    assert phases(found)["forward"] == phases(loop(training(4)))["forward"] + 50.0


def acting(steps: int, kind: float, at: float = 0.0) -> list[Event]:
    """Steps of 50 ms; the trained module is called without gradients before each."""
    events: list[Event] = []
    for start in range(round(at), round(at) + 50 * steps, 50):
        events += [
            no_grad(start, start + 10, kind=kind), forward(start + 10, start + 20),
            backward(start + 20, start + 40), optimizer(start + 40, start + 50),
        ]  # fmt: skip
    return events


def test_a_module_in_eval_mode_that_acts_before_every_step_is_forward() -> None:
    found = loop(acting(40, names.FORWARD_IN_EVAL))
    assert "evaluation" not in phases(found)
    assert phases(found)["forward"] == 40 * 10.0 + 39 * 10.0  # the loop begins with training


def test_evaluation_of_kept_data_after_every_step_is_evaluation() -> None:
    assert phases(loop(acting(40, names.FORWARD_ON_KNOWN)))["evaluation"] == 39 * 10.0


def test_evaluation_without_a_loader_every_fourth_step_is_evaluation() -> None:
    events: list[Event] = []
    for at in range(0, 4100, 410):
        events += [*training(4, at), in_eval(at + 400, at + 410)]
    assert phases(loop(events))["evaluation"] == 10 * 10.0


def test_gaps_in_which_events_were_dropped_are_unexplained() -> None:
    events = [
        *training(2), sample(names.OWN_DROPPED, 200, 0),
        *training(2, at=200), sample(names.OWN_DROPPED, 400, 7),
        *training(2, at=400), sample(names.OWN_DROPPED, 600, 7),
    ]  # fmt: skip
    found = loop(events, batch_size=5)
    assert found.dropped_events == 7
    assert phases(found)["unexplained"] == 30.0
    assert phases(found)["python between"] == 60.0


def test_time_in_which_the_device_worked_belongs_to_its_work() -> None:
    host = [
        next_(0, 10), forward(10, 12), backward(12, 14), optimizer(14, 16),
        next_(16, 66), forward(66, 68), backward(68, 70), optimizer(70, 100),
    ]  # fmt: skip
    device = [
        span("device.forward", 11, 21, track=5_000),
        span("device.backward", 21, 51, track=5_000),
        span("device.optimizer.step", 51, 61, track=5_000),
    ]
    found = loop([*host, *device])
    assert phases(found) == {
        "input wait": 15.0,  # 0 to 10 and 61 to 66
        "forward": 13.0,  # 10 to 21 and 66 to 68
        "backward": 32.0,
        "optimizer": 40.0,
    }


def test_what_the_device_says_may_come_some_steps_later() -> None:
    events: list[Event] = []
    for number in range(100):
        events += step(100 * number)
        if number >= 30:  # the device is seen late, and speaks three steps behind
            at = 100 * (number - 3)
            events.append(span("device.forward", at + 5, at + 35, track=5_000))
    found = loop(events, batch_size=3)
    # 5 to 30 was input, 30 to 35 a gap, in 70 steps (27 to 96)
    assert phases(found)["input wait"] == 100 * 30.0 - 70 * 25.0
    assert phases(found)["python between"] == 100 * 15.0 - 70 * 5.0


CODES = (
    FORWARD,
    BACKWARD,
    OPTIMIZER,
    OPTIMIZER_SCALE,
    OPTIMIZER_REST,
    INPUT_ITER,
    INPUT_NEXT,
    TRANSFER,
    SAVE,
    GC,
)


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 1000, depth: int = 3) -> list[SpanRow]:
    """Well-nested spans in the order in which they ended, with a CPU clock or without."""
    edges = sorted(draw(st.lists(st.integers(start, end), max_size=8)))
    rows: list[SpanRow] = []
    for begin, stop in zip(edges[::2], edges[1::2], strict=False):
        if depth and draw(st.booleans()):
            rows += draw(nested(begin, stop, depth - 1))
        clock = (begin, stop - begin) if draw(st.booleans()) else (-1, -1)
        code, value = draw(st.sampled_from(CODES)), draw(st.sampled_from((0.0, 1.0, -1.0, -2.0)))
        failed = draw(st.sampled_from((0, 0, 1)))
        arg = draw(st.integers(1, 3))
        rows.append(LoopSpan(begin, stop, code, arg, value, *clock, failed))
    return rows


def use_of(rows: Sequence[SpanRow]) -> ModuleUse:
    use = ModuleUse()
    for row in rows:
        use.take(row)
    use.step_ended()
    return use


@settings(max_examples=300, deadline=None)
@given(rows=nested(), start=st.integers(0, 500), length=st.integers(0, 600))
def test_phases_of_any_spans_add_up_to_the_wall_clock(
    rows: list[SpanRow], start: int, length: int
) -> None:
    time = sum_up(attribute(rows, start, start + length, -1, use_of(rows)))
    assert sum(time.wall_ns) == length
    assert min(time.wall_ns) >= 0
    assert min(time.cpu_ns) >= 0
    assert sum(time.cpu_ns) <= length


@settings(max_examples=100, deadline=None)
@example(rows=[LoopSpan(0, 0, 1), LoopSpan(1, 1, 8), LoopSpan(0, 1, 7), LoopSpan(2, 2, 8)])
@given(rows=nested())
def test_any_loop_adds_up_to_its_wall_clock(rows: list[SpanRow]) -> None:
    from stepscope.analyze.fold import LoopFold
    from stepscope.analyze.spans import NAME_OF_CODE
    from tests.unit.analyze.made import batch

    made = LoopFold()
    made.update(
        batch(
            span(NAME_OF_CODE[r[2]], r[0] / 1e6, r[1] / 1e6, r[3], r[4], flags=r[7]) for r in rows
        )
    )
    found = made.get()
    if found is not None:
        assert sum(time.wall_ns for time in found.phases.values()) == found.wall_ns


def test_an_empty_step_has_no_time() -> None:
    assert sum_up(attribute([], 10, 10, -1, None)).wall_ns == [0] * len(PHASES)


@pytest.mark.parametrize("code", CODES)
def test_a_span_beyond_both_ends_is_cut_to_the_step(code: int) -> None:
    time = sum_up(attribute([LoopSpan(0, 100, code, value=1.0)], 40, 60, -1, ModuleUse()))
    assert sum(time.wall_ns) == max(time.wall_ns) == 20


def short_step(at: int, *, read: bool, cpu_at: int = -1) -> Timeline:
    """Forward of 3 ms that runs, 1 ms between that waits, backward of 4 ms that runs for half."""
    ms = 1_000_000
    cpu = (cpu_at, cpu_at + 3 * ms) if read else (-1, -1)
    rows = [
        LoopSpan(at, at + 3 * ms, FORWARD, 1, 1.0, cpu[0], 3 * ms if read else -1),
        LoopSpan(at + 4 * ms, at + 8 * ms, BACKWARD, 0, 0.0, cpu[1], 2 * ms if read else -1),
    ]
    return attribute(rows, at, at + 8 * ms, cpu_at if read else -1, use_of(rows))


def test_short_steps_that_were_not_read_take_the_clock_of_those_that_were() -> None:
    clock = CpuClock()
    read = sum_up(short_step(10, read=True, cpu_at=500), clock)
    unread = sum_up(short_step(90_000_000, read=False), clock)
    assert unread.has_cpu
    assert unread.wall_ns == read.wall_ns  # the loss between forward and backward included
    assert unread.cpu_ns == pytest.approx(read.cpu_ns, abs=2)
    assert read.cpu_ns[PHASES.index(Phase.BACKWARD)] == 2_000_000


def test_before_any_step_was_read_nothing_is_known_of_the_clocks() -> None:
    assert not sum_up(short_step(10, read=False), CpuClock()).has_cpu
    assert not sum_up(short_step(10, read=False)).has_cpu
