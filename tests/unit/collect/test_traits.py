"""Facts about real small programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from stepscope.collect import facts
from stepscope.collect.denormals import SubnormalShare
from stepscope.model import traits
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Started
from tests.unit.collect.sampling import Sampled, folded, train

Facts = Callable[[], dict[str, Any]]


@pytest.fixture
def told(recorder: Recorder, tmp_path: Path) -> Facts:
    def get() -> dict[str, Any]:
        assert recorder.failures == {}
        return folded(recorder, tmp_path / "all.frames").traits

    return get


def rows() -> tuple[torch.Tensor]:
    return (torch.randn(4, 8),)


def test_dtypes_are_shares_of_the_parameters(started: Started, told: Facts) -> None:
    class Cast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.double()

    started(Sampled(None))
    model = nn.Sequential(
        nn.Linear(8, 8, bias=False), Cast(), nn.Linear(8, 24, bias=False).double()
    )

    train(model, rows, 1)

    assert told()[traits.DTYPES] == {"float64": 0.75, "float32": 0.25}


def test_the_machine_is_described_once(started: Started, told: Facts) -> None:
    started(Sampled(None))
    train(nn.Linear(8, 8), rows, 2)
    found = told()

    assert found[traits.THREADS] == torch.get_num_threads()
    assert found[traits.INTEROP_THREADS] == torch.get_num_interop_threads()
    assert found[traits.FLUSHES_DENORMALS] is False
    assert found[traits.COMPILED] in (False, True)  # tests before this one may have compiled


def test_flushing_is_found_by_computing() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush denormals")
    try:
        assert facts.flushes_denormals(torch) is True
    finally:
        torch.set_flush_denormal(False)
    assert facts.flushes_denormals(torch) is False


def test_optimizers_are_told_with_their_flags(started: Started, told: Facts) -> None:
    started(Sampled(None))
    model, other = nn.Linear(8, 8), nn.Linear(8, 8)
    optimizers = [
        torch.optim.AdamW(model.parameters(), fused=True),
        torch.optim.SGD([{"params": other.weight}, {"params": other.bias}], foreach=False, lr=0.1),
    ]
    for _ in range(5):
        (model(*rows()) + other(*rows())).sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    adamw, sgd = told()[traits.OPTIMIZERS]
    assert adamw == {
        "class": "AdamW", "fused": True, "foreach": None, "parameters": 2, "capturable": False,
        "shapes": [[[8, 8], "float32", 1], [[8], "float32", 1]],
    }  # fmt: skip
    assert (sgd["class"], sgd["foreach"], sgd["parameters"]) == ("SGD", False, 2)


@pytest.mark.parametrize(
    ("weights", "inputs", "expected"), [(False, False, 0), (True, False, 2), (False, True, 1)]
)
def test_the_layout_of_convolutions(
    weights: bool, inputs: bool, expected: int, started: Started, told: Facts
) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Unflatten(1, (4, 6, 6)))
    model.append(nn.Conv2d(4, 4, 3))
    if weights:
        model = model.to(memory_format=torch.channels_last)
    form = torch.channels_last if inputs else torch.contiguous_format
    started(Sampled())

    train(model, lambda: (torch.randn(2, 3, 8, 8).to(memory_format=form),), 3)

    layout = told()[traits.CONV_LAYOUT]
    assert layout == {"convolutions": 2, "channels_last": expected, "dims": 4}


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_is_seen_where_modules_run(inside: bool, started: Started, told: Facts) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=inside):
                return self.linear(x).float()

    started(Sampled())
    train(Net(), rows, 3)

    assert told()[traits.AUTOCAST] == ("bfloat16" if inside else None)


def test_values_that_python_asks_for_are_counted(started: Started, told: Facts) -> None:
    started(Sampled())
    model = nn.Linear(8, 8)
    # Not fused: it asks for its own step counts, which are not the program's doing.
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(4):
        loss = model(*rows()).square().sum()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        loss.item()
        if loss > 0:
            float(loss)
        int(loss)
        loss.tolist()

    assert told()[traits.ITEM_CALLS] == 5


def test_tensor_methods_are_torchs_own_after_a_sampled_step(started: Started) -> None:
    before = {name: getattr(torch.Tensor, name) for name in ("item", "__float__", "__bool__")}
    during = []

    class Looks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            during.append("item" in vars(torch.Tensor))
            return x

    started(Sampled())
    train(nn.Sequential(nn.Linear(8, 8), Looks()), rows, 8)

    assert during == [False, False, True, True, True, False, False, False]
    assert {name: getattr(torch.Tensor, name) for name in before} == before
    assert "item" not in vars(torch.Tensor)


def test_a_tensor_is_looked_at_by_chance_and_neither_it_nor_chance_is_changed() -> None:
    values = torch.zeros(4, 100_000)
    values[:, ::2] = 1e-40
    kept, state = values.clone(), torch.get_rng_state()
    share = SubnormalShare(torch)

    assert 0.2 < share.of(values) < 0.8
    assert share.of(torch.ones(100)) == 0.0
    assert share.of(torch.ones(3, dtype=torch.int64)) == share.of(torch.empty(0)) == 0.0
    assert torch.equal(values, kept)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_features_of_a_cpu_are_read(tmp_path: Path) -> None:
    listed = tmp_path / "cpuinfo"
    listed.write_text("processor : 0\nflags\t: fpu avx2 amx_bf16 sse\nflags\t: avx512f\n")

    assert facts.cpu_features(listed) == ["avx2", "amx_bf16"]
    assert facts.cpu_features(tmp_path / "none") == []


def test_a_mode_of_the_program_does_not_see_us(started: Started, recorder: Recorder) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counts(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.count += 1
            return func(*args, **(kwargs or {}))

    def counted() -> int:
        torch.manual_seed(0)
        with Counts() as mode:
            train(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), rows, 4)
        return int(mode.count)

    bare = counted()
    started(Sampled())

    assert counted() == bare
    assert recorder.failures == {}
