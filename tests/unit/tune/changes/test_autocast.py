"""The model under autocast."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from stepscope.tune.changes.autocast import Autocast
from tests.unit.tune.changes.host_support import installed, small_model, train


class Able(Autocast):
    """On a CPU that multiplies in bfloat16."""

    features = staticmethod(lambda: ["avx2", "avx512_bf16"])


class Seeing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.dtypes: list[torch.dtype] = []

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.layer(x)
        self.dtypes.append(out.dtype)
        return {"out": out}


def test_products_are_in_bfloat16_and_results_in_float32() -> None:
    with installed(Able, dtype="bfloat16") as (change, heard):
        model = Seeing()
        change.seen(model)
        outs = [model(torch.ones(1, 2))["out"] for _ in range(2)]
    assert model.dtypes == [torch.bfloat16] * 2
    assert [out.dtype for out in outs] == [torch.float32] * 2
    assert heard.whats == ["torch.autocast('cpu', torch.bfloat16)"]
    assert model(torch.ones(1, 2))["out"].dtype is torch.float32
    assert model.dtypes[-1] is torch.float32


def test_losses_stay_near() -> None:
    model = small_model()
    expected = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with installed(Able) as (change, _):
        model = small_model()
        found = train(model, torch.optim.SGD(model.parameters(), lr=0.1), change)
    assert found == pytest.approx(expected, rel=0.05)
    assert found != expected


class Unable(Autocast):
    features = staticmethod(lambda: ["avx2"])


def test_a_cpu_without_such_products_refuses() -> None:
    with installed(Unable) as (change, heard):
        change.seen(small_model())
    assert heard.no == ["this CPU does not multiply in bfloat16."]


def test_programs_under_autocast_and_other_precisions_are_left_alone() -> None:
    with installed(Able) as (change, heard):
        with torch.autocast("cpu", torch.bfloat16):
            change.seen(small_model())
        change.seen(small_model().double())
        change.seen(nn.MSELoss())
    assert heard.done == []
    assert len(heard.no) == 2


class Picky(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.dropout(self.layer(x), 0.5, True)
        if out.dtype != torch.float32:
            raise TypeError("float32 is wanted")
        return out


def picky_losses(change: Autocast | None = None) -> list[float]:
    torch.manual_seed(0)
    model = Picky()
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), change)


def test_a_model_that_fails_with_it_runs_as_it_was_with_the_same_random_numbers() -> None:
    with installed(Able) as (change, heard):
        assert picky_losses(change) == picky_losses()
    assert heard.no == ["the model fails under autocast: float32 is wanted"]


def test_errors_of_the_program_pass() -> None:
    with installed(Able) as (change, _):
        model = small_model()
        change.seen(model)
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.ones(1, 99))
    assert "__call__" not in vars(nn.Sequential)
