from __future__ import annotations

import pytest

from stepscope.analyze.steps import FoundBy
from stepscope.model import names
from stepscope.model.event import Flag
from tests.unit.analyze.made import (
    MS,
    THREAD,
    Event,
    backward,
    exhausted,
    fold,
    forward,
    in_eval,
    iter_,
    loop,
    next_,
    optimizer,
    phases,
    span,
    step,
    training,
)


def test_a_plain_loop_has_a_step_for_each_optimizer_step() -> None:
    found = loop([iter_(95, 100), *training(5, at=100), exhausted(600, 601)], began=80)
    assert found.found_by is FoundBy.OPTIMIZER
    assert found.steps == 5
    assert list(found.durations_ns) == [105 * MS, 100 * MS, 100 * MS, 100 * MS, 100 * MS]
    assert (found.startup_ns, found.tail_ns) == (15 * MS, 1 * MS)
    assert phases(found) == {
        "input wait": 155.0,
        "forward": 100.0,
        "backward": 125.0,
        "optimizer": 50.0,
        "python between": 75.0,
    }


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 1000])
def test_it_does_not_matter_how_events_are_cut_into_batches(batch_size: int) -> None:
    events = [iter_(-5, 0), *training(40), exhausted(4000, 4001)]
    found = loop(events, batch_size)
    assert found.steps == 40
    assert phases(found) == phases(loop(events))


def test_asking_in_the_middle_changes_nothing() -> None:
    asked = fold(training(20))
    first = asked.get()
    second = asked.get()
    assert first is not None
    assert second is not None
    assert first.steps == second.steps == 20
    assert phases(first) == phases(second)
    assert first.micro_batches == second.micro_batches == 20


def test_accumulated_batches_are_one_step() -> None:
    events: list[Event] = []
    for at in (0, 100):
        for micro in (0, 40):
            start = at + micro
            events += [
                next_(start, start + 10),
                forward(start + 10, start + 20),
                backward(start + 20, start + 40),
            ]
        events.append(optimizer(at + 80, at + 100))
    found = loop(events)
    assert (found.steps, found.micro_batches) == (2, 4)
    assert phases(found) == {
        "input wait": 40.0,
        "forward": 40.0,
        "backward": 80.0,
        "optimizer": 40.0,
    }


def gan(at: float) -> list[Event]:
    """Two optimizers a batch."""
    return [
        next_(at, at + 10),
        forward(at + 10, at + 20, module=1),
        backward(at + 20, at + 30),
        optimizer(at + 30, at + 40, which=1),
        forward(at + 40, at + 60, module=2),
        backward(at + 60, at + 80),
        optimizer(at + 80, at + 100, which=2),
    ]


def test_several_optimizers_in_a_row_are_one_step() -> None:
    found = loop([*gan(0), *gan(100), *gan(200)])
    assert found.steps == 3
    assert list(found.durations_ns) == [100 * MS] * 3


def by_optimizers(order: str) -> int:
    """Steps that are found where these optimizers step, each after a forward and a backward."""
    events: list[Event] = []
    for number, which in enumerate(order):
        at = 30.0 * number
        events += [forward(at, at + 10), backward(at + 10, at + 20)]
        events += [optimizer(at + 20, at + 30, ord(which))]
    return loop(events).steps


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        ("aaabbbccc", 9),  # layers that are trained one after the other
        ("aabbaabb", 8),
        ("abababab", 4),
        ("aaabaaab", 6),  # a critic that learns more often: its last step is the generator's, too
        ("abbbabbb", 6),
        ("abababb", 4),
        ("abcabc", 2),
    ],
)
def test_optimizers_that_take_turns_share_steps_and_those_that_take_over_do_not(
    order: str, steps: int
) -> None:
    assert by_optimizers(order) == steps


def test_an_optimizer_after_the_next_batch_is_another_step() -> None:
    events = [
        next_(0, 10), forward(10, 20), backward(20, 30), optimizer(30, 40, which=1),
        next_(40, 50), forward(50, 60), backward(60, 70), optimizer(70, 80, which=2),
    ]  # fmt: skip
    assert list(loop(events).durations_ns) == [40 * MS, 40 * MS]


def test_evaluation_between_two_optimizers_does_not_part_them() -> None:
    events = [
        next_(0, 10), forward(10, 20), backward(20, 30), optimizer(30, 40, which=1),
        iter_(40, 41, iterator=2), next_(41, 45, iterator=2), in_eval(45, 50),
        exhausted(50, 51, iterator=2),
        forward(60, 70), backward(70, 80), optimizer(80, 100, which=2),
    ]  # fmt: skip
    assert list(loop(events).durations_ns) == [100 * MS]


def scaled(at: float, skipped: bool) -> list[Event]:
    inner = [] if skipped else [optimizer(at + 62, at + 68)]
    return [
        next_(at, at + 20),
        forward(at + 20, at + 40),
        backward(at + 40, at + 60),
        span(names.OPTIMIZER_SCALE, at + 60, at + 61),
        *inner,
        optimizer(at + 60, at + 70),
        span(names.OPTIMIZER_SCALE, at + 70, at + 75),
    ]


def test_a_step_that_the_scaler_skipped_is_a_step_and_counted_as_skipped() -> None:
    found = loop([*scaled(0, True), *scaled(100, False), *scaled(200, False), *scaled(300, True)])
    assert (found.steps, found.skipped) == (4, 2)


def test_without_a_scaler_no_step_is_skipped() -> None:
    assert loop(training(3)).skipped == 0


def test_a_closure_puts_forward_and_backward_inside_the_optimizer() -> None:
    def lbfgs(at: float) -> list[Event]:
        return [
            next_(at, at + 10),
            forward(at + 20, at + 40), backward(at + 40, at + 60),
            forward(at + 65, at + 75), backward(at + 75, at + 85),
            optimizer(at + 15, at + 100),
        ]  # fmt: skip

    found = loop([*lbfgs(0), *lbfgs(100)])
    assert found.steps == 2
    assert phases(found) == {
        "input wait": 20.0,
        "forward": 60.0,
        "backward": 60.0,
        "optimizer": 50.0,  # 5 before, 5 between, 15 after
        "python between": 10.0,
    }


def test_without_a_loader_the_loop_begins_with_the_call_that_leads_to_the_first_backward() -> None:
    warm_up = [forward(-500, -400)]  # with gradients, as scripts do to print a shape
    found = loop([*warm_up, forward(0, 10), backward(10, 20), optimizer(20, 30)], began=-600)
    assert (found.start_ns, found.end_ns) == (0, 30 * MS)
    assert found.startup_ns == 600 * MS


def test_evaluation_before_training_is_start_up() -> None:
    events = [
        iter_(0, 10, iterator=5), next_(10, 20, iterator=5), in_eval(20, 40),
        exhausted(40, 41, iterator=5), iter_(50, 60), *training(2, at=60),
    ]  # fmt: skip
    found = loop(events)
    assert (found.start_ns, found.steps) == (50 * MS, 2)


def test_an_optimizer_step_that_failed_ends_no_step() -> None:
    failed = span(names.OPTIMIZER_STEP, 290, 295, 9, flags=int(Flag.FAILED))
    found = loop([*training(2), *step(200)[:-1], failed])
    assert found.steps == 2
    assert found.end_ns == 200 * MS
    assert found.tail_ns == 95 * MS


def test_an_open_optimizer_step_ends_no_step_and_is_told() -> None:
    still_open = span(names.OPTIMIZER_STEP, 290, 5290, 9, flags=int(Flag.OPEN))
    found = loop([*training(2), *step(200)[:-1], still_open])
    assert found.steps == 2
    assert found.open_span is not None
    assert (found.open_span.name, found.open_span.lasted_ns) == (names.OPTIMIZER_STEP, 5000 * MS)


def test_an_open_span_that_ends_later_counts_once() -> None:
    still_open = span(names.INPUT_NEXT, 200, 220, 1, flags=int(Flag.OPEN))
    events = [*training(2), still_open, *training(1, at=200)]
    found = loop(events)
    assert found.open_span is None
    assert phases(found) == phases(loop(training(3)))


def test_an_optimizer_inside_a_backward_ends_its_step_with_that_backward() -> None:
    def hooked(at: float) -> list[Event]:
        return [
            next_(at, at + 10), forward(at + 10, at + 20),
            optimizer(at + 30, at + 35, which=1), optimizer(at + 40, at + 45, which=2),
            backward(at + 20, at + 60),
        ]  # fmt: skip

    found = loop([*hooked(0), *hooked(60), *hooked(120)])
    assert list(found.durations_ns) == [60 * MS] * 3
    assert phases(found)["backward"] == 90.0


def test_without_an_optimizer_each_backward_is_a_step() -> None:
    events = [event for at in (0, 100, 200) for event in step(at)[:-1]]
    found = loop(events)
    assert (found.found_by, found.steps) == (FoundBy.BACKWARD, 3)
    assert found.end_ns == 285 * MS


def test_inference_has_a_step_for_each_batch() -> None:
    events = [iter_(0, 10)]
    for at in (10, 60, 110):
        events += [next_(at, at + 20), in_eval(at + 20, at + 45)]
    events.append(exhausted(160, 165))
    found = loop(events)
    assert (found.found_by, found.steps) == (FoundBy.LOADER, 3)
    assert list(found.durations_ns) == [60 * MS, 50 * MS, 55 * MS]
    assert phases(found) == {"input wait": 75.0, "forward": 75.0, "python between": 15.0}


def test_inference_over_two_epochs_counts_every_batch() -> None:
    events: list[Event] = []
    for epoch in (0, 100):
        events += [
            iter_(epoch, epoch + 5),
            next_(epoch + 5, epoch + 20),
            in_eval(epoch + 20, epoch + 40),
        ]
        events += [next_(epoch + 40, epoch + 50), in_eval(epoch + 50, epoch + 80)]
        events += [exhausted(epoch + 80, epoch + 81)]
    assert loop(events).steps == 4


def test_batches_of_zipped_loaders_are_one_step_of_inference() -> None:
    events = [iter_(0, 1, 1), iter_(1, 2, 2)]
    for at in (10, 60, 110):
        events += [next_(at, at + 5, 1), next_(at + 5, at + 10, 2), in_eval(at + 10, at + 40)]
    assert loop(events).steps == 3


def test_a_loader_alone_has_a_step_for_each_batch() -> None:
    assert loop([iter_(0, 1), next_(1, 2), next_(3, 4), next_(5, 6), exhausted(7, 8)]).steps == 3


def test_without_a_loader_each_forward_is_a_step() -> None:
    found = loop([in_eval(0, 10), in_eval(20, 30), in_eval(50, 60)])
    assert (found.found_by, found.steps) == (FoundBy.FORWARD, 3)
    assert phases(found) == {"forward": 30.0, "python between": 30.0}


def test_a_process_without_any_step_has_no_loop() -> None:
    assert fold([span(names.GC, 0, 10, 2), span(names.SAVE, 20, 30)]).get() is None
    assert fold([]).get() is None


def test_long_inference_before_training_is_start_up() -> None:
    events = [iter_(0, 1)]
    for batch_number in range(12_000):
        at = 1 + batch_number * 3
        events += [next_(at, at + 1), in_eval(at + 1, at + 3)]
    inference = loop(events)
    assert (inference.found_by, inference.steps) == (FoundBy.LOADER, 12_000)
    found = loop([*events, exhausted(40_000, 40_001), iter_(40_010, 40_100, 2), *[
        event | {"arg": 2} if event["name"] == names.INPUT_NEXT else event
        for event in training(3, at=40_100)
    ]])  # fmt: skip
    assert (found.found_by, found.steps) == (FoundBy.OPTIMIZER, 3)
    assert found.start_ns == 40_010 * MS


def test_the_thread_with_the_optimizer_is_the_training_thread() -> None:
    other = [span(names.FORWARD, at, at + 50, 3, 1.0, track=THREAD + 1) for at in (0, 100, 200)]
    mixed = [
        event
        for pair in zip(other, [step(at) for at in (0, 100, 200)], strict=True)
        for event in [pair[0], *pair[1]]
    ]
    found = loop(mixed)
    assert found.steps == 3
    assert phases(found) == phases(loop(training(3)))


def test_a_very_long_evaluation_after_training_needs_no_more_memory() -> None:
    events = [*training(3), iter_(300, 301, 2)]
    for number in range(30_000):
        at = 301 + number * 2
        events += [next_(at, at + 1, 2), in_eval(at + 1, at + 2)]
    long = fold(events)
    assert len(long._pending) <= 20_000
    found = long.get()
    assert found is not None
    assert found.steps == 3
    assert phases(found)["evaluation"] == 60_001.0
    assert phases(found)["input wait"] == 90.0


def test_when_steps_are_many_windows_are_joined_and_sums_stay() -> None:
    found = loop(training(10_000))
    assert found.steps == 10_000
    assert len(found.windows.steps()) <= 4096
    assert sum(found.windows.steps()) == 10_000
    assert phases(found)["input wait"] == 300_000.0


def test_a_module_around_the_whole_loop_hides_no_step() -> None:
    trainer = forward(-50, 350, module=99)
    inner = [event for event in training(3) if event["name"] != names.FORWARD]
    found = loop([*inner, trainer])
    assert found.steps == 3


def test_progress_tells_steps_rate_and_main_phase_while_it_runs() -> None:
    assert fold([]).progress() == (0, None, "", None)
    running = fold(training(40)).progress()
    assert running.steps == 40
    assert running.steps_per_second == pytest.approx(10.0)
    assert running.phase == "input wait"
    assert running.share == pytest.approx(0.3)
    assert fold([iter_(0, 1), next_(1, 2), in_eval(2, 3), next_(3, 4)]).progress().steps == 2
