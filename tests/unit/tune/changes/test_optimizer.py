"""fused and foreach in optimizers that were made without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from stepscope.tune.changes.optimizer import Optimizer
from tests.unit.tune.changes.host_support import installed, small_model, train


def make(kind: type[torch.optim.Optimizer], model: nn.Module, *args: Any, **more: Any) -> Any:
    return kind(model.parameters(), *args, **more)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_fused_is_set_and_the_losses_stay(kind: type[torch.optim.Optimizer]) -> None:
    model = small_model()
    plain = train(model, make(kind, model, lr=0.1))
    with installed(Optimizer, fused=True) as (_, heard):
        model = small_model()
        optimizer = make(kind, model, lr=0.1)
        changed = train(model, optimizer)
    assert optimizer.param_groups[0]["fused"] is True
    assert changed == pytest.approx(plain, rel=1e-5)
    assert f"{kind.__name__}(fused=True)" in heard.whats
    assert set(heard.functions) == {"make"}


def test_the_other_way_is_given_up_for_it() -> None:
    with installed(Optimizer, fused=True):
        optimizer = make(torch.optim.Adam, small_model(), foreach=True)
    assert optimizer.param_groups[0]["fused"] is True
    assert optimizer.param_groups[0]["foreach"] is None


def test_foreach_given_by_position_takes_no_second_one() -> None:
    given = (0.01, 0.99, 1e-8, 0, 0, False, False, False)  # the last one: foreach
    with installed(Optimizer, foreach=True) as (_, heard):
        optimizer = make(torch.optim.RMSprop, small_model(), *given)
    assert optimizer.param_groups[0]["foreach"] is True
    assert heard.whats == ["RMSprop(foreach=True)"]


def test_a_combination_that_torch_refuses_is_made_as_the_program_wanted() -> None:
    model = small_model()
    given = [{"params": model.parameters(), "lr": 0.5}]
    with installed(Optimizer, fused=True) as (_, heard):
        optimizer = torch.optim.Adam(given, differentiable=True)
    assert heard.whats == []
    assert len(heard.no) == 1
    assert "differentiable" in heard.no[0]
    assert optimizer.param_groups[0]["fused"] is None
    assert optimizer.param_groups[0] is given[0]
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert len(optimizer.param_groups[0]["params"]) == 4


def test_groups_keep_what_is_theirs() -> None:
    model = small_model()
    first, _, last = model.children()
    with installed(Optimizer, fused=True):
        optimizer = torch.optim.SGD(
            [{"params": first.parameters()}, {"params": last.parameters(), "lr": 0.5}], lr=0.1
        )
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
    assert [group["fused"] for group in optimizer.param_groups] == [True, True]


class Named(torch.optim.Adam):
    """A subclass that only has a name of its own."""


class Own(torch.optim.Adam):
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.sub_(parameter.grad, alpha=group["lr"])


def test_a_subclass_that_steps_as_torch_does_is_changed_too() -> None:
    with installed(Optimizer, fused=True) as (_, heard):
        optimizer = make(Named, small_model(), lr=0.1)
    assert optimizer.param_groups[0]["fused"] is True
    assert heard.whats == ["Named(fused=True)"]


def test_a_subclass_with_a_step_of_its_own_is_left_alone() -> None:
    with installed(Optimizer, fused=True) as (_, heard):
        optimizer = make(Own, small_model(), lr=0.1)
    assert optimizer.param_groups[0]["fused"] is None
    assert heard.no == ["Own has a step() of its own."]


def sparse_losses(optimizer: torch.optim.Optimizer, table: nn.Embedding) -> list[float]:
    losses = []
    for _ in range(3):
        loss = table(torch.tensor([1, 2])).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def embedding() -> nn.Embedding:
    torch.manual_seed(1)
    return nn.Embedding(4, 3, sparse=True)


def test_sparse_gradients_fall_back_at_the_first_step() -> None:
    table = embedding()
    plain = sparse_losses(torch.optim.SGD(table.parameters(), lr=0.1), table)
    with installed(Optimizer, fused=True) as (_, heard):
        table = embedding()
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        changed = sparse_losses(optimizer, table)
    assert changed == plain
    assert optimizer.param_groups[0]["fused"] is None
    assert len(heard.no) == 1
    assert "cannot step so" in heard.no[0]


def test_a_closure_is_called_once_though_the_step_is_taken_twice() -> None:
    calls = []
    with installed(Optimizer, fused=True):
        table = embedding()
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

        def closure() -> torch.Tensor:
            calls.append(1)
            optimizer.zero_grad()
            loss = table(torch.tensor([1])).sum()
            loss.backward()
            return loss

        assert optimizer.step(closure) is not None
    assert calls == [1]


def test_errors_of_the_program_pass() -> None:
    with installed(Optimizer, fused=True) as (_, heard):
        with pytest.raises(TypeError, match="rate"):
            torch.optim.SGD(small_model().parameters(), rate=1)
        with pytest.raises(ValueError, match="learning rate"):
            torch.optim.SGD(small_model().parameters(), lr=-1.0)
        with pytest.raises(TypeError, match="iterable of Tensors"):
            torch.optim.SGD(torch.ones(2))
        optimizer = torch.optim.SGD(small_model().parameters(), lr=0.1)

        def closure() -> float:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            optimizer.step(closure)
    assert heard.errors == []


def test_undo_leaves_torch_as_it_was() -> None:
    before = {kind: vars(kind)["__init__"] for kind in (torch.optim.SGD, torch.optim.AdamW)}
    with installed(Optimizer, fused=True):
        assert vars(torch.optim.SGD)["__init__"] is not before[torch.optim.SGD]
    assert {kind: vars(kind)["__init__"] for kind in before} == before
    assert make(torch.optim.SGD, small_model()).param_groups[0]["fused"] is None
