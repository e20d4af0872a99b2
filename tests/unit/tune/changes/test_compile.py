"""The model compiled in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from stepscope.tune.changes import compile as compiling
from stepscope.tune.changes.compile import Compile
from tests.unit.tune.changes.host_support import installed, small_model, train

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's compiler has its own to tell


class Wavering(nn.Module):
    """Fails where it is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.dropout(self.layer(x), 0.5, True)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands for the compiler: calls go on, each is noted; `mode="fails"` raises at the first."""
    calls: list[dict[str, Any]] = []

    def compile_(module: nn.Module, **options: Any) -> None:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(options)
            if options.get("mode") == "fails":
                torch.rand(3)
                raise AssertionError("no such kernel\nand more")
            return module._call_impl(*args, **kwargs)

        module._compiled_call_impl = call

    monkeypatch.setattr(nn.Module, "compile", compile_)
    monkeypatch.setattr(compiling, "is_compiled", lambda roots: False)
    return calls


def losses(change: Compile | None = None) -> tuple[list[float], nn.Module]:
    torch.manual_seed(0)
    model = Wavering()
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), change), model


def test_the_model_is_compiled_and_stays_the_same_object(compiled: list[dict[str, Any]]) -> None:
    expected, plain = losses()
    with installed(Compile, mode="default", backend="eager") as (change, heard):
        found, model = losses(change)
        assert isinstance(model, Wavering)
        assert list(model.state_dict()) == list(plain.state_dict())
    assert found == expected
    assert compiled == [{"mode": "default", "backend": "eager"}] * 4
    assert heard.whats == ["model.compile(mode='default', backend='eager')"]
    assert model._compiled_call_impl is None


def test_a_failing_compiler_leaves_the_model_and_its_random_numbers(
    compiled: list[dict[str, Any]],
) -> None:
    expected, _ = losses()
    with installed(Compile, mode="fails", backend="eager") as (change, heard):
        found, model = losses(change)
    assert found == expected
    assert len(compiled) == 1
    assert heard.no == ["the compiled model fails: AssertionError: no such kernel"]
    assert model._compiled_call_impl is None


def test_errors_of_the_program_pass(compiled: list[dict[str, Any]]) -> None:
    with installed(Compile, backend="eager") as (change, _):
        model = small_model()
        change.seen(model)
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.ones(1, 99))


def test_without_a_compiler_it_is_refused(
    compiled: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_no_compiler", lambda: "nothing to compile with: g++")
    with installed(Compile) as (change, heard):
        change.seen(small_model())
        change.seen(nn.MSELoss())
    assert compiled == []
    assert heard.no == ["nothing to compile with: g++"]


@pytest.mark.extended
def test_torchs_own_compiler_gives_the_same_losses() -> None:
    model = small_model()
    expected = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    torch._dynamo.reset()
    with installed(Compile) as (change, heard):
        model = small_model()
        found = train(model, torch.optim.SGD(model.parameters(), lr=0.1), change)
    assert found == pytest.approx(expected, rel=1e-5)
    assert heard.whats + heard.no == ["model.compile()"]
    torch._dynamo.reset()
