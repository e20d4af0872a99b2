"""Standing around the calls of a module."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from stepscope.collect.chain import Patches
from stepscope.tune.calls import Around, Guarded, has_parameters, with_tensors


class Plus(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: float) -> float:
        self.calls += 1
        return x + 1


def doubled(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(args[0] * 2, **kwargs)


def test_only_modules_that_were_added_are_wrapped_and_all_is_put_back() -> None:
    patches = Patches()
    around, one, other = Around(patches), Plus(), Plus()
    around.add(one, doubled)
    assert [one(5), one(5), other(5)] == [11, 11, 6]
    assert "forward" not in vars(one)
    around.remove(one)
    assert one(5) == 6
    around.clear()
    patches.undo()
    assert "__call__" not in vars(Plus)


def test_a_call_that_has_begun_is_wrapped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    patches, original = Patches(), nn.Module.__call__
    begun: list[nn.Module] = []
    around, module = Around(patches), Plus()

    def seeing(self: Plus, *args: float) -> Any:
        if not begun:
            begun.append(self)
            around.add(self, doubled)
        return original(self, *args)

    monkeypatch.setattr(nn.Module, "__call__", seeing)
    assert module(5) == 11
    assert module(5) == 11
    around.clear()
    patches.undo()


def test_a_forward_of_the_modules_own_comes_back() -> None:
    patches = Patches()
    around, module = Around(patches), Plus()
    module.forward = own = lambda x: x * 10  # type: ignore[method-assign]
    around.add(module, doubled)
    assert [module(5), module(5)] == [100, 100]
    assert vars(module)["forward"] is own
    around.add(module, doubled)
    around.clear()
    patches.undo()
    assert vars(module)["forward"] is own


def test_what_fails_is_run_again_with_the_numbers_and_buffers_of_before() -> None:
    module = Plus()
    errors: list[BaseException] = []
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)

    def changed() -> torch.Tensor:
        module(1.0)
        torch.rand(7)
        raise ValueError("no")

    def plain() -> torch.Tensor:
        module(1.0)
        return torch.rand(1)

    assert Guarded(module, errors.append).run(changed, plain) == expected
    assert [str(error) for error in errors] == ["no"]
    assert float(module.calls) == 1


def test_an_error_of_the_programs_own_comes_alone() -> None:
    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        Guarded(Plus(), lambda _: None).run(fails, fails)
    assert caught.value.__context__ is None


class Pair(NamedTuple):
    left: Any
    right: Any


def test_tensors_are_found_in_containers_and_others_stay_the_same() -> None:
    value = {"a": [torch.ones(1), 2], "b": Pair(torch.ones(1), "x"), "c": (3, [4])}
    new = with_tensors(value, lambda tensor: tensor + 1, torch.Tensor)
    assert new["a"] == [torch.tensor([2.0]), 2]
    assert isinstance(new["b"], Pair)
    assert new["b"].left == 2
    assert new["c"] is value["c"]
    assert with_tensors(value, lambda tensor: tensor, torch.Tensor) is value


def test_losses_have_no_parameters() -> None:
    assert has_parameters(nn.Linear(1, 1))
    assert not has_parameters(nn.MSELoss())
