"""float32 for float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from stepscope.tune.changes.float32 import Float32
from stepscope.tune.injection import Injection
from tests.unit.tune.changes.host_support import installed

TABLE = np.random.default_rng(0).normal(size=(8, 6))


def losses(change: Injection | None = None) -> tuple[list[float], nn.Module]:
    """A program in float64, from numpy to the model."""
    torch.manual_seed(0)
    model = nn.Linear(6, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.from_numpy(TABLE), torch.as_tensor(TABLE.sum(1))
    found = []
    for step in range(4):
        if change is not None and step == 0:
            change.seen(model)
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, model


def test_a_program_in_float64_runs_in_float32() -> None:
    expected, _ = losses()
    with installed(Float32) as (change, heard):
        found, model = losses(change)
    assert found == pytest.approx(expected, rel=1e-5)
    assert {one.dtype for one in model.parameters()} == {torch.float32}
    assert heard.whats == [
        "float() for double()", "from_numpy(…).float()", "as_tensor(…).float()"
    ]  # fmt: skip
    assert set(heard.functions) == {"losses"}


def test_the_default_stays_float32() -> None:
    with installed(Float32) as (_, heard):
        torch.set_default_dtype(torch.float64)
        assert torch.get_default_dtype() is torch.float32
        assert torch.ones(1).dtype is torch.float32
    assert heard.whats == ["torch.set_default_dtype(torch.float32)"]


def test_models_that_have_it_already_are_converted_with_their_parameters_in_place() -> None:
    model = nn.Linear(2, 2, dtype=torch.float64)
    parameter = model.weight
    with installed(Float32) as (change, heard):
        change.seen(model)
        assert model(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float32
        assert model(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float32
    assert model.weight is parameter
    assert parameter.dtype is torch.float32
    assert heard.whats == ["model.float()"]


def test_batches_come_out_of_loaders_in_float32() -> None:
    rows = [(torch.ones(2, dtype=torch.float64), 3) for _ in range(4)]
    with installed(Float32) as (_, heard):
        batches = list(DataLoader(rows, 2))
    assert [batch[0].dtype for batch in batches] == [torch.float32] * 2
    assert [batch[1].dtype for batch in batches] == [torch.int64] * 2
    assert "float32 out of the loader" in heard.whats


def test_to_and_tensor_take_float32_where_float64_is_named() -> None:
    with installed(Float32):
        assert torch.ones(1).to(torch.float64).dtype is torch.float32
        assert torch.ones(1).to("cpu", dtype=torch.float64).dtype is torch.float32
        assert torch.ones(1).double().dtype is torch.float32
        assert torch.tensor(1.0, dtype=torch.float64).dtype is torch.float32
        assert nn.Linear(1, 1).to(torch.float64).weight.dtype is torch.float32
        assert torch.ones(1).to(torch.int64).dtype is torch.int64
        assert torch.from_numpy(np.ones(2, np.int64)).dtype is torch.int64


def test_torchs_own_calls_are_left_alone() -> None:
    with installed(Float32) as (_, heard):
        torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-9)
        call = eval("lambda one: one.double()", {"__name__": "torch.somewhere"})
        assert call(torch.ones(1)).dtype is torch.float64
    assert heard.done == []


def test_a_program_in_float32_is_not_touched_and_errors_pass() -> None:
    with installed(Float32) as (change, heard):
        model = nn.Linear(2, 2)
        change.seen(model)
        x = torch.from_numpy(np.ones((1, 2), np.float32))
        assert x.to(torch.float32) is x
        model(x)
        with pytest.raises(TypeError):
            torch.from_numpy("text")
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 3))
        with pytest.raises(TypeError):
            torch.set_default_dtype("float64")
    assert heard.done == []


def test_undo_puts_everything_back() -> None:
    names = "set_default_dtype", "tensor", "as_tensor", "from_numpy"
    before = [getattr(torch, name) for name in names], torch.Tensor.to, nn.Module.double
    with installed(Float32):
        assert torch.from_numpy is not before[0][3]
    assert ([getattr(torch, name) for name in names], torch.Tensor.to, nn.Module.double) == before
    assert torch.from_numpy(TABLE).dtype is torch.float64
