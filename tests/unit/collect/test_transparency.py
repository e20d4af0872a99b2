"""What a program may do with the functions that we stand in front of."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from stepscope.collect.source import source_of_dataset
from stepscope.collect.torch_hooks import TorchHooks
from stepscope.collect.transfer import TransferCollector
from stepscope.model import names
from tests.unit.collect.conftest import Read, Started


def test_an_optimizer_class_of_the_program_can_be_pickled_by_value(started: Started) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")

    class Mine(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    Mine.__module__ = "__main__"  # by value: what Ray and others do with a script's own classes
    started(TorchHooks())
    weight = nn.Parameter(torch.ones(2))
    Mine([weight], lr=0.1)

    other = pickle.loads(cloudpickle.dumps(Mine))([weight], lr=0.5)
    weight.sum().backward()
    other.step()

    assert weight.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("function", [nn.Module.__call__, torch.save], ids=["__call__", "save"])
def test_wrapped_functions_can_be_pickled(function: Any, started: Started) -> None:
    started(TorchHooks())
    now = nn.Module.__call__ if function is nn.Module.__call__ else torch.save

    assert pickle.loads(pickle.dumps(now)) is now


def test_a_program_that_is_exported_keeps_its_dynamic_shapes(started: Started) -> None:
    class Moves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to("meta") * 2

    started(TransferCollector(force=True))
    batch = torch.export.Dim("batch")

    program = torch.export.export(
        Moves(), (torch.randn(5, 3),), dynamic_shapes=({0: batch},), strict=False
    )

    assert "batch" in str(program.range_constraints) or program.range_constraints


def test_function_modes_of_the_program_see_only_its_own_calls(started: Started) -> None:
    seen: list[str] = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    started(TransferCollector(force=True))
    with Watch():
        torch.ones(2).to("meta")

    assert [name for name in seen if name != "ones"] == ["to"]


def test_a_decorator_that_wraps_itself_does_not_hang_the_loader() -> None:
    def make(_: Any, index: int) -> int:
        return index

    make.__wrapped__ = make  # type: ignore[attr-defined]
    dataset = type("Odd", (), {"__getitem__": make})()

    assert source_of_dataset(dataset)["dataset"] == "Odd"


class OddSampler:
    batch_size = torch.tensor(2)

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1], [2, 3]])


def test_a_loader_with_odd_settings_is_recorded_all_the_same(started: Started, read: Read) -> None:
    started(TorchHooks())
    loader: Any = torch.utils.data.DataLoader(list(range(4)), batch_sampler=OddSampler())

    for _ in range(70):
        assert len(list(loader)) == 2

    assert len(read(names.INPUT_ITER)) == 70
