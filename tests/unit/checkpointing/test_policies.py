"""What is kept although the rest is computed again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy

from stepscope.checkpointing.manager import CheckpointManager
from stepscope.checkpointing.policies import (
    CUSTOM,
    DEAR_OPERATORS,
    Recompute,
    dear_operators,
    is_dear,
)
from stepscope.errors import UsageError
from tests.unit.checkpointing.models import CASES, WIDTH, Mlp, assert_same, made, rows, step

ADDMM = torch.ops.aten.addmm.default
GELU = torch.ops.aten.gelu.default


class Counted(TorchDispatchMode):
    """Which operators ran."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran[func] += 1
        return func(*args, **(kwargs or {}))


def in_backward(recompute: Recompute | None) -> Counter[Any]:
    """What ran in the backward of a block of two products with a gelu between."""
    block = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Softmax(dim=1)
    )
    manager = CheckpointManager(block)
    if recompute is not None:
        manager.checkpoint("", recompute=recompute)
    loss = block(rows()).sum()
    counted = Counted()
    with counted:
        loss.backward()
    return counted.ran


def test_a_plain_backward_computes_nothing_again() -> None:
    ran = in_backward(None)
    assert (ran[ADDMM], ran[GELU]) == (0, 0)


def test_all_computes_everything_again() -> None:
    ran = in_backward("all")
    assert (ran[ADDMM], ran[GELU]) == (2, 2)


def test_cheap_computes_no_product_again() -> None:
    ran = in_backward("cheap")
    assert (ran[ADDMM], ran[GELU]) == (0, 2)


class Returning(nn.Module):
    """Returns the result of a product, too, for others to change."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = self.linear(x)
        return product, product.relu().square()


def test_a_kept_result_that_was_changed_after_the_segment_is_computed_again() -> None:
    module, x = Returning(), rows()
    found = []
    for recompute in (None, "cheap"):
        manager = CheckpointManager(module)
        if recompute is not None:
            manager.checkpoint("", recompute=recompute)
        product, squares = module(x)
        product += 1
        found.append(torch.autograd.grad((product + squares).sum(), module.linear.weight)[0])
    assert torch.equal(*found)


def test_a_list_names_the_operators_to_keep() -> None:
    ran = in_backward([GELU])
    assert (ran[ADDMM], ran[GELU]) == (2, 0)


def test_a_policy_decides_call_by_call() -> None:
    seen: list[Any] = []

    def second_product(_context: Any, op: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        seen.append(op)
        keep = op is ADDMM and seen.count(ADDMM) == 2
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    ran = in_backward(second_product)
    assert (ran[ADDMM], ran[GELU]) == (1, 2)


@pytest.mark.parametrize("name", ["a CNN with batch norm", "an argument changed in place"])
def test_a_policy_sees_no_copies_of_ours(name: str) -> None:
    steps = []
    for is_checkpointed in (False, True):
        model, given = made(CASES[name])
        manager = CheckpointManager(model)
        if is_checkpointed:
            manager.checkpoint(*CASES[name].names, recompute=[torch.ops.aten.clone.default])
        steps.append([step(model, given, seed=seed) for seed in (3, 4)])
    for one, other in zip(*steps, strict=True):
        assert_same(one, other)


def test_the_dear_operators_are_there_in_this_torch() -> None:
    names = {f"aten.{op._schema.name.partition('::')[2]}" for op in dear_operators()}
    assert names <= DEAR_OPERATORS
    assert {"aten.mm", "aten.convolution"} <= names
    assert "aten._scaled_dot_product_flash_attention_for_cpu" in names


def test_attention_that_drops_is_computed_again() -> None:
    attention = torch.ops.aten._scaled_dot_product_flash_attention.default
    query = torch.empty(1, 2, 3, 4)
    assert is_dear(attention, (query, query, query), {})
    assert is_dear(attention, (query, query, query, 0.0), {})
    assert not is_dear(attention, (query, query, query, 0.1), {})
    assert not is_dear(attention, (query, query, query), {"dropout_p": 0.1})


@pytest.mark.parametrize("wrong", ["most", 3, [torch.ops.aten.mm], ["aten.mm"]])
def test_what_cannot_be_a_policy_is_said_before_anything_changes(wrong: Any) -> None:
    block = Mlp()
    with pytest.raises(UsageError):
        CheckpointManager(block).checkpoint("", recompute=wrong)
    assert "forward" not in block.__dict__


def test_a_plan_says_that_a_policy_was_the_programs_own() -> None:
    manager = CheckpointManager(Mlp()).checkpoint("up", recompute=[ADDMM])
    assert [segment.recompute for segment in manager.plan.segments] == [CUSTOM]


def test_choosing_a_module_again_changes_what_it_keeps() -> None:
    block = Mlp()
    manager = CheckpointManager(block).checkpoint("up").checkpoint("up", recompute="cheap")
    assert [segment.recompute for segment in manager.plan.segments] == ["cheap"]
    step(block, rows())
    manager.remove()
    assert "forward" not in block.up.__dict__


BERNOULLI = torch.ops.aten.bernoulli_.float


class Dropping(nn.Module):
    """Two dropouts, and where asked for other random numbers after the first."""

    def __init__(self, noisy: bool) -> None:
        super().__init__()
        self.noisy = noisy
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        x = nn.functional.dropout(self.first(x).tanh(), 0.3)
        if self.noisy:
            x = x + torch.rand_like(x)
        return nn.functional.dropout(self.second(x).tanh(), 0.5).exp()


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("backwards", [1, 2])
def test_what_dropout_decided_is_the_same_when_it_is_recomputed(
    noisy: bool, backwards: int
) -> None:
    model, x = nn.Sequential(Dropping(noisy)), rows()
    expected = step(model, x, backwards=backwards)

    with CheckpointManager(model) as manager:
        manager.checkpoint("0", recompute="cheap")
        assert_same(step(model, x, backwards=backwards), expected)


@pytest.mark.parametrize(("noisy", "drawn"), [(False, 0), (True, 2)])
def test_random_numbers_are_drawn_again_only_where_they_have_to_be(noisy: bool, drawn: int) -> None:
    model = nn.Sequential(Dropping(noisy))
    with CheckpointManager(model) as manager:
        manager.checkpoint("0", recompute="cheap")
        loss = model(rows()).sum()
        counted = Counted()
        with counted:
            loss.backward()

    assert counted.ran[BERNOULLI] == drawn
