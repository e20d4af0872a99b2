"""channels_last for models with convolutions."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from stepscope.tune.changes.layout import Layout
from stepscope.tune.injection import Injection
from tests.unit.tune.changes.host_support import installed, small_model


class Net(nn.Module):
    def __init__(self, flatten: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head, self.flatten = nn.Linear(4 * 36, 2), flatten
        self.inputs: list[bool] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inputs.append(x.is_contiguous(memory_format=torch.channels_last))
        x = torch.dropout(self.norm(self.conv(x)).relu(), 0.3, self.training)
        if self.flatten == "view":
            return self.head(x.view(len(x), -1))
        return self.head(x.flatten(1))


def losses(model: nn.Module, change: Injection | None = None) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    numbers, found = torch.Generator().manual_seed(1), []
    torch.manual_seed(2)
    for step in range(4):
        x = torch.randn(2, 3, 6, 6, generator=numbers)
        if change is not None and step == 0:
            change.seen(model)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_weights_and_images_lie_channels_last_and_losses_stay_close() -> None:
    expected = losses(Net("flatten").eval())
    with installed(Layout) as (change, heard):
        model = Net("flatten").eval()
        assert losses(model, change) == pytest.approx(expected, rel=1e-4)
        assert model.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert model.inputs == [True] * 4
    assert heard.whats == ["model.to(memory_format=torch.channels_last)"]
    assert heard.functions == ["losses"]


def test_a_model_that_fails_with_it_runs_as_it_was_from_its_first_call_on() -> None:
    plain = Net("view")
    expected = losses(plain)
    with installed(Layout) as (change, heard):
        model = Net("view")
        assert losses(model, change) == expected  # random numbers and statistics too
        assert model.conv.weight.is_contiguous()
    assert len(heard.no) == 1
    assert int(model.norm.num_batches_tracked) == 4


def test_what_comes_out_lies_as_the_program_expects() -> None:
    with installed(Layout) as (change, _):
        model = nn.Conv2d(3, 4, 3)
        change.seen(model)
        for _ in range(2):
            assert model(torch.ones(2, 3, 6, 6)).is_contiguous()


def test_models_without_convolutions_and_those_that_have_it_are_left_alone() -> None:
    with installed(Layout) as (change, heard):
        change.seen(small_model())
        assert heard.no == []
        change.seen(nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))
    assert heard.done == []
    assert heard.no == ["the model is in channels_last already."]


def test_a_model_can_be_copied_and_pickled_meanwhile_and_is_put_back() -> None:
    with installed(Layout) as (change, _):
        model = Net("flatten")
        losses(model, change)
        assert sorted(vars(pickle.loads(pickle.dumps(model)))) == sorted(vars(Net("flatten")))
        copied = copy.deepcopy(model)
    assert "forward" not in vars(copied)
    assert "__call__" not in vars(Net)
    assert model.conv.weight.is_contiguous()


def test_errors_of_the_program_pass() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("mine")

    with installed(Layout) as (change, _):
        model = Wrong()
        change.seen(model)
        with pytest.raises(RuntimeError, match="mine"):
            model(torch.ones(1, 1, 2, 2))
