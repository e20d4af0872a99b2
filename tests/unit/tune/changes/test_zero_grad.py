"""Gradients that are let go of."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks

from stepscope.tune.changes.zero_grad import ZeroGrad
from tests.unit.tune.changes.host_support import installed, small_model


class Two(nn.Module):
    """One of two heads gets no gradient in every other step."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right = (nn.Linear(3, 3) for _ in range(3))


def losses(by_module: bool = False) -> list[float]:
    torch.manual_seed(0)
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    x, found = torch.randn(4, 3), []
    for step in range(6):
        head = model.left if step % 2 else model.right
        loss = head(model.body(x)).square().mean()
        (model if by_module else optimizer).zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("by_module", [False, True])
def test_losses_stay_to_the_bit_where_some_get_no_gradient_in_a_step(
    by_module: bool,
) -> None:
    plain = losses(by_module)
    with installed(ZeroGrad) as (_, heard):
        assert losses(by_module) == plain
    assert set(heard.whats) == {"zero_grad(set_to_none=True)"}
    assert set(heard.functions) == {"losses"}


def test_gradients_are_gone_and_not_zero() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 6)).sum().backward()
    with installed(ZeroGrad) as (_, heard):
        optimizer.zero_grad(False)
        assert all(one.grad is None for one in model.parameters())
        assert len(heard.done) == 1


def test_programs_that_do_so_already_are_not_told_of() -> None:
    model = small_model()
    with installed(ZeroGrad) as (_, heard):
        torch.optim.SGD(model.parameters(), lr=0.1).zero_grad()
        model.zero_grad(set_to_none=True)
    assert heard.done == []


def test_a_parameter_that_never_had_a_gradient_keeps_none() -> None:
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
    before = model.right.weight.detach().clone()
    with installed(ZeroGrad):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            model.left(model.body(torch.ones(1, 3))).sum().backward()
            optimizer.step()
    assert torch.equal(model.right.weight, before)


def test_undo_and_errors() -> None:
    before = torch.optim.Optimizer.zero_grad, nn.Module.zero_grad
    hooks = dict(_global_optimizer_pre_hooks)
    with installed(ZeroGrad), pytest.raises(TypeError, match="unexpected"):
        small_model().zero_grad(sets=1)
    assert (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad) == before
    assert dict(_global_optimizer_pre_hooks) == hooks
