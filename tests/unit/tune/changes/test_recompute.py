"""Checkpoints of the program's own that do nothing."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint as checkpointing
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from stepscope.collect.checkpoints import door
from stepscope.tune.changes.recompute import Recompute
from tests.unit.tune.changes.host_support import installed, train


class Counted(nn.Module):
    """Counts its forwards."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.runs = nn.Linear(6, 6), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return torch.dropout(self.layer(x), 0.5, self.training).relu()


class Frugal(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.block, self.reentrant = nn.Linear(6, 6), Counted(), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpointing.checkpoint(self.block, self.first(x), use_reentrant=self.reentrant)


def losses(model: nn.Module) -> list[float]:
    torch.manual_seed(5)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("reentrant", [False, True])
def test_nothing_is_computed_twice_and_losses_stay(reentrant: bool) -> None:
    plain = Frugal(reentrant)
    expected = losses(plain)
    assert plain.block.runs == 8
    with installed(Recompute) as (_, heard):
        model = Frugal(reentrant)
        assert losses(model) == expected
    assert model.block.runs == 4
    assert set(heard.whats) == {"no checkpoint()"}
    assert set(heard.functions) == {"Frugal.forward"}


def test_segments_are_computed_once() -> None:
    model = nn.Sequential(Counted(), Counted())
    with installed(Recompute):
        out = checkpointing.checkpoint_sequential(model, 2, torch.ones(1, 6), use_reentrant=False)
        out.sum().backward()
    assert [one.runs for one in model] == [1, 1]


def test_undo_lets_checkpoints_work_again_and_errors_pass() -> None:
    def wrong(_: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    with installed(Recompute), pytest.raises(KeyError, match="mine"):
        checkpointing.checkpoint(wrong, torch.ones(1, requires_grad=True), use_reentrant=False)
    assert not door().shut
    assert checkpointing.checkpoint is checkpoint
    assert checkpointing.checkpoint_sequential is checkpoint_sequential
    model = Frugal(False)
    losses(model)
    assert model.block.runs == 8
