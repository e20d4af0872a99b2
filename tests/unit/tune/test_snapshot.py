"""Copies of what is to be saved."""

from __future__ import annotations

import argparse
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stepscope.tune.snapshot import Snapshots, Unlike


def take(value: Any) -> Any:
    return Snapshots(torch).take(value).value


def test_later_changes_are_not_in_the_copy() -> None:
    model = nn.Linear(2, 2)
    state = {"model": model.state_dict(), "steps": [1], "table": np.ones(2)}
    weight = model.weight.detach().clone()
    copied = take(state)
    with torch.no_grad():
        model.weight.zero_()
    state["steps"].append(2)
    state["table"][:] = 0
    assert torch.equal(copied["model"]["weight"], weight)
    assert copied["steps"] == [1]
    assert copied["table"].tolist() == [1, 1]
    assert isinstance(copied["model"], OrderedDict)
    assert vars(copied["model"]) == vars(model.state_dict())


def test_tensors_that_share_memory_still_do() -> None:
    base = torch.arange(6.0)
    copied = take({"all": base, "part": base[2:4], "again": base})
    copied["all"][2] = 99
    assert copied["part"][0] == 99
    assert copied["again"] is copied["all"]
    assert base[2] == 2


def test_parameters_and_gradients_wanted_stay_and_gradients_go() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    leaf, made = torch.ones(2, requires_grad=True), parameter * 2
    copied = take([parameter, leaf, made])
    assert type(copied[0]) is nn.Parameter
    assert copied[0].grad is None
    assert [one.requires_grad for one in copied] == [True, True, True]
    assert copied[2].grad_fn is None


def test_strides_and_small_types_stay() -> None:
    value = torch.arange(12).reshape(3, 4).t()
    copied = take(value)
    assert copied.stride() == value.stride()
    assert torch.equal(copied, value)
    assert take(torch.empty(0)).shape == (0,)
    assert take(torch.tensor(True)).dtype is torch.bool


def test_objects_that_pickle_takes_are_copied() -> None:
    copied = take({"args": argparse.Namespace(lr=0.1), "path": Path("x"), "kind": nn.Linear})
    assert copied == {"args": argparse.Namespace(lr=0.1), "path": Path("x"), "kind": nn.Linear}


class Holder:
    def __init__(self) -> None:
        self.tensor = torch.ones(1)


class Named(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Holder(),
        lambda: None,
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.cfloat).conj(),
        torch.ones(2).as_subclass(Named),
        nn.Linear(1, 1),
    ],
)
def test_what_would_not_be_saved_alike_is_said(value: Any) -> None:
    if callable(value) and not isinstance(value, nn.Module):
        value = [value, Holder()]
    with pytest.raises(Unlike):
        take({"value": value})


def test_a_list_in_itself_is_copied_and_a_tuple_in_itself_is_not() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert take(endless)[0][0] is not endless
    inside: list[Any] = []
    inside.append((inside,))
    take(inside)


def test_memory_is_used_again() -> None:
    snapshots = Snapshots(torch)
    first = snapshots.take([torch.ones(100), torch.ones(7)])
    places = {storage.data_ptr() for storage in first.storages}
    snapshots.give_back(first)
    second = snapshots.take([torch.zeros(100), torch.zeros(7)])
    assert {storage.data_ptr() for storage in second.storages} == places
    assert second.value[0].sum() == 0
