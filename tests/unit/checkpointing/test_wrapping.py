"""Checkpointing changes nothing that training can see."""

from __future__ import annotations

import copy
import inspect
import io
from typing import Any

import pytest
import torch
from torch import nn

from stepscope.checkpointing.engine import RecomputationEngine
from stepscope.checkpointing.manager import CheckpointManager
from stepscope.model.checkpoint_plan import ALL, CHEAP, CheckpointPlan, Segment
from stepscope.model.own_code import is_ours
from tests.unit.checkpointing.models import (
    CASES,
    WIDTH,
    Conv,
    Mlp,
    Step,
    Transformer,
    assert_same,
    made,
    rows,
    step,
)

CACHED = 1 << 30  # bytes: more than any of these models needs


def calls_of(module: nn.Module) -> list[int]:
    """Grows by one with each call of a module inside a segment, recomputing included."""
    seen: list[int] = []
    module.register_forward_hook(lambda *_: seen.append(1))
    return seen


def fresh(name: str) -> tuple[nn.Module, torch.Tensor]:
    return made(CASES[name])


def plain_steps(name: str, backwards: int = 1) -> list[Step]:
    model, given = fresh(name)
    return [step(model, given, backwards=backwards, seed=seed) for seed in (3, 4)]


@pytest.mark.parametrize("recompute", [ALL, CHEAP])
@pytest.mark.parametrize("cache_bytes", [0, CACHED])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_same_to_the_bit(name: str, cache_bytes: int, recompute: str) -> None:
    model, given = fresh(name)
    manager = CheckpointManager(model, RecomputationEngine(cache_bytes))
    with manager.checkpoint(*CASES[name].names, recompute=recompute):
        steps = [step(model, given, seed=seed) for seed in (3, 4)]
    for one, other in zip(steps, plain_steps(name), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("recompute", [ALL, CHEAP])
@pytest.mark.parametrize("name", CASES)
def test_a_second_backward_is_the_same_to_the_bit(name: str, recompute: str) -> None:
    expected = plain_steps(name, backwards=2)
    for cache_bytes in (0, CACHED):
        model, given = fresh(name)
        engine = RecomputationEngine(cache_bytes)
        with CheckpointManager(model, engine).checkpoint(*CASES[name].names, recompute=recompute):
            steps = [step(model, given, backwards=2, seed=seed) for seed in (3, 4)]
        for one, other in zip(steps, expected, strict=True):
            assert_same(one, other)
        assert (engine.cache_info().hits > 0) == (cache_bytes > 0)


@pytest.mark.parametrize("recompute", [ALL, CHEAP])
def test_autocast_is_as_in_forward(recompute: str) -> None:
    steps = []
    for is_checkpointed in (False, True):
        model, given = fresh("a transformer with dropout")
        manager = CheckpointManager(model)
        if is_checkpointed:
            manager.checkpoint("blocks.*", recompute=recompute)
        model.zero_grad()
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16):
            out = model(given)
        assert out.dtype == torch.bfloat16
        loss = out.float().square().sum()
        loss.backward()  # outside: recomputing has to go back inside by itself
        gradients = {name: one.grad.clone() for name, one in model.named_parameters()}
        steps.append(Step(loss.detach(), gradients, {}, torch.rand(())))
    assert_same(*steps)


def test_gradients_for_each_output_are_the_same_and_computed_once_with_a_cache() -> None:
    block, x = Mlp(), rows()
    expected = [torch.autograd.grad(block.eval()(x)[row].sum(), block.up.weight) for row in (0, 1)]
    engine = RecomputationEngine(CACHED)
    CheckpointManager(block, engine).checkpoint("")
    out = block(x)
    found = [
        torch.autograd.grad(out[row].sum(), block.up.weight, retain_graph=True) for row in (0, 1)
    ]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one[0], other[0])
    assert engine.cache_info()[:2] == (1, 1)


def test_gradients_of_gradients_are_the_same() -> None:
    second = []
    for cache_bytes in (None, 0, CACHED):
        torch.manual_seed(1)
        block, x = Mlp(), rows().requires_grad_()
        if cache_bytes is not None:
            CheckpointManager(block, RecomputationEngine(cache_bytes)).checkpoint("")
        torch.manual_seed(2)
        (first,) = torch.autograd.grad(block(x).square().sum(), x, create_graph=True)
        first.square().sum().backward()
        assert block.up.weight.grad is not None
        second.append(block.up.weight.grad.clone())
    assert torch.equal(second[0], second[1])
    assert torch.equal(second[0], second[2])


def test_a_segment_is_computed_again_once_for_a_backward() -> None:
    model, given = fresh("a transformer with dropout")
    assert isinstance(model, Transformer)
    seen = calls_of(model.blocks[1].linear1)
    with CheckpointManager(model).checkpoint("blocks.1"):
        step(model, given)
        assert len(seen) == 2
    step(model, given)
    assert len(seen) == 3


def test_hooks_on_the_module_itself_run_once() -> None:
    model, given = fresh("a transformer with dropout")
    assert isinstance(model, Transformer)
    seen = calls_of(model.blocks[1])
    with CheckpointManager(model).checkpoint("blocks.1"):
        step(model, given)
    assert len(seen) == 1


def test_without_gradients_nothing_is_checkpointed() -> None:
    model, given = fresh("a transformer with dropout")
    with CheckpointManager(model).checkpoint("blocks.*"), torch.no_grad():
        assert model(given).grad_fn is None
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        plain = model(given)
        torch.manual_seed(0)
        with CheckpointManager(model).checkpoint("blocks.*"):
            assert torch.equal(model(given), plain)


class Named(nn.Module):
    """Its keywords are called like those of torch's checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, *, debug: float, function: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x) * debug + function)


def test_keywords_may_be_called_like_torchs_own() -> None:
    module, x = Named(), rows()
    module(x, debug=2.0, function=x).sum().backward()
    expected = module.linear.weight.grad
    module.zero_grad()
    with CheckpointManager(module).checkpoint(""):
        module(x, debug=2.0, function=x).sum().backward()
    assert expected is not None
    assert module.linear.weight.grad is not None
    assert torch.equal(module.linear.weight.grad, expected)


@pytest.mark.parametrize("recompute", [ALL, CHEAP])
def test_runs_of_a_sequentials_children_are_segments(recompute: str) -> None:
    name = "a CNN with batch norm"
    expected = plain_steps(name)
    model, given = fresh(name)
    assert isinstance(model, Conv)
    plan = CheckpointPlan((Segment("blocks", recompute, 0, 1), Segment("blocks", recompute, 3, 3)))
    seen = [calls_of(block) for block in model.blocks]
    with CheckpointManager(model).apply(plan):
        steps = [step(model, given, seed=seed) for seed in (3, 4)]
    for one, other in zip(steps, expected, strict=True):
        assert_same(one, other)
    # Two steps; recomputing may end within the last child of a run, before its hook.
    assert [len(calls) for calls in seen][:3] == [4, 2, 2]
    assert "forward" not in model.blocks.__dict__


class Failing(nn.Module):
    """Fails when it is computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.calls = nn.BatchNorm1d(WIDTH), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls > 1:
            self.norm(x)
            raise RuntimeError("the second time")
        return self.norm(x).exp()


@pytest.mark.parametrize("cache_bytes", [0, CACHED])
def test_buffers_come_back_also_when_recomputing_fails(cache_bytes: int) -> None:
    module = Failing()
    CheckpointManager(module, RecomputationEngine(cache_bytes)).checkpoint("")
    loss = module(rows()).sum()
    buffers = dict(module.named_buffers())
    values = {name: one.clone() for name, one in buffers.items()}
    with pytest.raises(RuntimeError, match="the second time"):
        loss.backward()
    for name, buffer in module.named_buffers():
        assert buffer is buffers[name]
        assert torch.equal(buffer, values[name])


def test_only_buffers_that_forward_changes_are_copied() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)
            self.mask: torch.Tensor
            self.register_buffer("mask", torch.ones(WIDTH))
            self.met: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.met.append(self.mask)
            return (self.linear(x) * self.mask).exp()

    module = Masked()
    with CheckpointManager(module).checkpoint(""):
        module(rows()).sum().backward()
    assert [one is module.mask for one in module.met] == [True, True]


def test_only_arguments_that_forward_changes_are_kept_as_copies() -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.met: list[tuple[int, int]] = []

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.met.append((x.data_ptr(), y.data_ptr()))
            return x.exp_() * y.exp()

    module = Changing()
    with CheckpointManager(module).checkpoint(""):
        for _ in range(2):
            module.met.clear()
            x, y = (rows().requires_grad_() for _ in range(2))
            copy_of_x = x * 1
            module(copy_of_x, y).sum().backward()
            assert x.grad is not None
            assert torch.equal(x.grad, x.exp() * y.exp())
            (x_then, y_then), (x_again, y_again) = module.met
            assert (x_then == x_again, y_then == y_again) == (False, True)


def test_an_argument_that_is_changed_after_its_use_is_an_error_as_to_torch() -> None:
    block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    CheckpointManager(block).checkpoint("")
    for said in ("was changed in place after the module", "modified by an inplace operation"):
        given = rows().requires_grad_() * 1
        loss = block(given).sum()
        given.add_(1)
        with pytest.raises(RuntimeError, match=said):
            loss.backward()


def test_a_copy_of_the_model_checkpoints_itself_until_it_is_removed() -> None:
    model, given = fresh("a transformer with dropout")
    expected = step(model, given)
    manager = CheckpointManager(model).checkpoint("blocks.*")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    assert isinstance(twin, Transformer)
    seen = calls_of(twin.blocks[0].linear1)
    assert_same(step(twin, given), expected)
    assert len(seen) == 2
    manager.remove()
    assert_same(step(twin, given), expected)
    assert len(seen) == 3


def test_a_model_that_was_saved_whole_comes_back_plain() -> None:
    model = Mlp()
    CheckpointManager(model).checkpoint("")
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded: Any = torch.load(file, weights_only=False)
    assert loaded.forward.__func__ is Mlp.forward
    assert loaded.forward.__self__ is loaded


def test_the_signature_of_forward_stays() -> None:
    block = Transformer().blocks[0]
    before = inspect.signature(block.forward)
    with CheckpointManager(block).checkpoint(""):
        assert inspect.signature(block.forward) == before


def test_a_forward_of_the_instances_own_comes_back() -> None:
    block = Mlp()

    def own(x: torch.Tensor) -> torch.Tensor:
        return block.up(x)

    block.forward = own  # type: ignore[method-assign]
    x = rows()
    with CheckpointManager(block).checkpoint(""):
        assert torch.equal(block(x), block.up(x))
        assert block.__dict__["forward"] is not own
    assert block.__dict__["forward"] is own


def test_what_somebody_put_on_top_of_it_stays_and_works() -> None:
    block, x = Mlp().eval(), rows()
    first = CheckpointManager(block).checkpoint("")
    second = CheckpointManager(block).checkpoint("")
    seen = calls_of(block.up)
    block(x).sum().backward()
    twice = len(seen)
    first.remove()
    block(x).sum().backward()
    assert (twice, len(seen) - twice) == (2, 2)
    second.remove()
    block(x).sum().backward()
    assert len(seen) - twice - 2 == 1


@pytest.mark.parametrize("segment", [Segment("1"), Segment("", ALL, 0, 1)], ids=["module", "run"])
def test_a_traceback_of_a_segment_has_no_frames_of_ours(segment: Segment) -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("in a segment")

    model = nn.Sequential(nn.Linear(2, 2), Fails())
    CheckpointManager(model).apply(CheckpointPlan((segment,)))
    with pytest.raises(ValueError, match="in a segment") as caught:
        model(torch.ones(1, 2))

    assert caught.traceback[-1].name == "forward"
    assert not [one for one in caught.traceback if is_ours(str(one.path))]
