"""Plans for small models, on the memory that they really take."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from stepscope.checkpointing.budget import budget_of
from stepscope.checkpointing.candidates import Candidate, Overheads
from stepscope.checkpointing.manager import CheckpointManager
from stepscope.checkpointing.meter import CpuMeter
from stepscope.checkpointing.overheads import measure_overheads
from stepscope.checkpointing.planner import BudgetTooSmallError, Planner
from stepscope.checkpointing.posed import Posed, Seen, look, pose_seen
from stepscope.collect.checkpoints import door
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import ALL, CHEAP
from stepscope.session.planning import plan_checkpoints

ROWS, WIDTH = 1024, 64  # activations are nearly all of the memory
ONE = ROWS * WIDTH * 4  # bytes of an activation
FREE = Overheads(0.0, 0, 0.0)


class Block(nn.Module):
    """Keeps its input (matrix product), the product (sin) and the result of exp."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 16)

    def forward(self, x: Any) -> Any:
        return torch.exp(torch.sin(x @ self.weight)) * 0.1


class Model(nn.Module):
    def __init__(self, blocks: int = 4, own: tuple[int, ...] = (), as_list: bool = False) -> None:
        super().__init__()
        made = [Block() for _ in range(blocks)]
        self.blocks: Any = nn.ModuleList(made) if as_list else nn.Sequential(*made)
        self.own = own  # blocks that it checkpoints itself

    def forward(self, x: Any) -> Any:
        if isinstance(self.blocks, nn.Sequential):
            return self.blocks(x)
        for at, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if at in self.own else block(x)
        return x


@pytest.fixture
def meter() -> Iterator[CpuMeter]:
    gc.collect()  # what other tests left would be counted
    made = CpuMeter()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _door_as_it_was() -> Iterator[None]:
    gc.collect()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    assert not door().is_heard
    assert not door().shut


def step_of(model: nn.Module) -> Callable[[], None]:
    torch.manual_seed(0)
    x = torch.randn(ROWS, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


def looked_at(model: nn.Module, meter: CpuMeter, overheads: Overheads = FREE) -> Posed:
    step = step_of(model)
    for _ in range(2):
        step()
    found: list[Seen] = []

    def course() -> Generator[None]:
        found.append((yield from look(model, meter)))

    for _ in course():
        step()
    return pose_seen(found[0]._replace(overheads=overheads))


def by_label(posed: Posed) -> dict[tuple[str, str], Candidate]:
    return {(one.segment.label, one.segment.recompute): one for one in posed.found}


def test_what_a_block_keeps_is_known_to_the_byte(meter: CpuMeter) -> None:
    found = by_label(looked_at(Model(), meter))

    # Its product and the result of exp; its input stays, and so does what it returns.
    assert found["blocks.1", ALL].saved_bytes == 2 * ONE
    # The product is the result of a dear operator.
    assert found["blocks.1", CHEAP].saved_bytes == ONE


def test_neighbours_together_save_what_lies_between_them_too(meter: CpuMeter) -> None:
    found = by_label(looked_at(Model(), meter))

    assert found["blocks[1..2]", ALL].saved_bytes == 2 * 2 * ONE + ONE


def test_recomputing_stops_at_the_last_tensor_that_backward_needs(meter: CpuMeter) -> None:
    found = by_label(looked_at(Model(), meter))
    full, cheap = found["blocks.1", ALL], found["blocks.1", CHEAP]

    assert 0 < cheap.recompute_ms < full.recompute_ms


def test_every_plan_has_the_peak_that_was_predicted(meter: CpuMeter) -> None:
    model = Model()
    posed = looked_at(model, meter, Overheads(0.0, torch.get_rng_state().nbytes, 0.0))
    step = step_of(model)
    base = posed.problem.evaluate(()).peak_bytes
    for share in (0.9, 0.75, 0.6):
        choice = posed.problem.least_time(int(share * base))
        assert choice is not None
        with CheckpointManager(model) as manager:
            manager.apply(posed.plan(choice, None))
            step()
            meter.mark()
            step()
            measured = meter.mark().peak_bytes
        assert measured <= share * base
        assert measured == pytest.approx(choice.peak_bytes, rel=0.01)


def test_a_plan_is_found_applied_and_measured() -> None:
    model = Model()
    before = {name: module.forward for name, module in model.named_modules()}

    report = plan_checkpoints(model, step_of(model), "70%")

    assert report.measured.peak_bytes <= 0.7 * report.baseline.peak_bytes
    assert report.measured.peak_bytes == pytest.approx(report.predicted.peak_bytes, rel=0.02)
    assert report.measured.steps == report.baseline.steps > 0
    assert report.present is None
    assert {one.segment for one in report.blocks if one.is_planned} == set(report.plan.segments)
    assert {name: module.forward for name, module in model.named_modules()} == before


def test_the_curve_falls_in_peak_and_rises_in_time() -> None:
    model = Model()
    report = plan_checkpoints(model, step_of(model), save="20%")

    peaks = [point.peak_bytes for point in report.curve]
    times = [point.step_ms for point in report.curve]
    assert peaks == sorted(peaks, reverse=True)
    assert times == sorted(times)
    assert peaks[-1] == report.smallest_peak_bytes
    assert report.curve[0].segments == 0


def test_with_a_manager_the_plan_stays_applied() -> None:
    model = Model()
    manager = CheckpointManager(model)

    report = plan_checkpoints(model, step_of(model), 0.8, manager=manager)

    assert manager.plan == report.plan
    assert manager.is_on
    manager.remove()


def test_a_budget_that_nothing_fits_says_which_peak_is_the_smallest() -> None:
    model = Model()
    before = model.blocks[0].forward

    with pytest.raises(BudgetTooSmallError, match="smallest peak") as caught:
        plan_checkpoints(model, step_of(model), 1000)

    assert caught.value.smallest_bytes > 1000
    assert model.blocks[0].forward == before


def test_what_fits_as_it_is_gets_an_empty_plan() -> None:
    model = Model()

    report = plan_checkpoints(model, step_of(model), "1GiB")

    assert report.plan.segments == ()


def test_checkpoints_of_the_programs_own_are_left_out_while_planning_and_compared() -> None:
    model = Model(6, own=(0, 1, 2), as_list=True)

    report = plan_checkpoints(model, step_of(model), "70%")

    assert report.present is not None
    assert report.present.peak_bytes < report.baseline.peak_bytes
    assert {one.segment.module for one in report.blocks if one.is_present} == {
        "blocks.0",
        "blocks.1",
        "blocks.2",
    }
    assert not any("save nothing" in note for note in report.notes)


def test_checkpoints_that_save_nothing_at_the_peak_are_told() -> None:
    # The last block: its backward comes first, with everything before it still there.
    model = Model(6, own=(5,), as_list=True)

    report = plan_checkpoints(model, step_of(model), "70%")

    assert any("save nothing at the peak" in note for note in report.notes)


def test_a_model_that_is_not_trained_cannot_be_planned() -> None:
    model, other = Model(), Model()

    with pytest.raises(UsageError, match="not called with gradients"):
        plan_checkpoints(other, step_of(model), "70%")


def test_closing_in_the_middle_leaves_the_model_as_it_was() -> None:
    model = Model()
    step = step_of(model)
    planner = Planner(model, budget_of("70%"), CheckpointManager(model))
    for _ in range(6):
        step()
        assert not planner.step_ended()
    planner.close()

    assert not model.blocks[0]._forward_hooks
    assert planner.step_ended()


class Dropped(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nn.functional.dropout(torch.exp(torch.sin(x)), 0.5)


def test_cheap_keeps_a_byte_for_each_decision_of_dropout(meter: CpuMeter) -> None:
    model = Model(0)
    model.blocks = nn.Sequential(Block(), Dropped(), Block())
    posed = looked_at(model, meter)
    found = by_label(posed)

    # The result of exp, sin's argument is its own input; and the noise that dropout multiplies by.
    assert found["blocks.1", ALL].saved_bytes == 2 * ONE
    assert found["blocks.1", CHEAP].saved_bytes == 2 * ONE - ONE // 4


class Twice(nn.Module):
    """One block, called twice in a forward."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.block = Block(), Block()

    def forward(self, x: Any) -> Any:
        return self.block(self.block(self.before(x)))


def test_a_module_that_is_called_twice_saves_twice(meter: CpuMeter) -> None:
    model = Twice()
    posed = looked_at(model, meter, Overheads(0.0, torch.get_rng_state().nbytes, 0.0))
    at = next(
        at
        for at, one in enumerate(posed.found)
        if one.segment.label == "block" and one.segment.recompute == ALL
    )
    predicted = posed.problem.evaluate((at,))
    step = step_of(model)
    with CheckpointManager(model) as manager:
        manager.apply(posed.plan(predicted, None))
        step()
        meter.mark()
        step()
        measured = meter.mark().peak_bytes

    assert measured == pytest.approx(predicted.peak_bytes, rel=0.01)


def test_a_manager_with_something_applied_is_refused() -> None:
    model = Model()
    manager = CheckpointManager(model).checkpoint("blocks.0")

    with pytest.raises(UsageError, match="remove"):
        plan_checkpoints(model, step_of(model), "70%", manager=manager)
    manager.remove()


def test_a_manager_of_the_programs_own_is_told_to_be_in_the_way() -> None:
    model = Model()
    own = CheckpointManager(model).checkpoint("blocks.0")

    with pytest.raises(UsageError, match="CheckpointManager of its own"):
        plan_checkpoints(model, step_of(model), "70%")
    own.remove()


def test_after_a_budget_that_nothing_fits_the_programs_own_checkpoints_are_on() -> None:
    model = Model(6, own=(0, 1, 2), as_list=True)
    step = step_of(model)

    with pytest.raises(BudgetTooSmallError):
        plan_checkpoints(model, step, 1000)

    assert not door().shut
    assert not door().is_heard


def test_what_goes_wrong_in_a_hook_ends_the_planning_and_not_the_program() -> None:
    model = Model()
    step = step_of(model)
    planner = Planner(model, budget_of("70%"), CheckpointManager(model))
    for _ in range(5):
        step()
        planner.step_ended()
    CpuMeter().close()  # somebody else takes the memory over
    step()

    with pytest.raises(UsageError, match="one at a time"):
        planner.step_ended()
    step()
    assert not model.blocks[0]._forward_hooks


def test_costs_of_checkpoints_are_measured_also_while_the_programs_own_are_shut(
    meter: CpuMeter,
) -> None:
    door().shut = True
    try:
        assert measure_overheads(meter, "cpu").call_ms > 0
    finally:
        door().shut = False
