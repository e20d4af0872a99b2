"""Modules of real models on sampled steps: which, how often, how long; and nothing is disturbed."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from stepscope.collect import layer_calls
from stepscope.collect.sampled import Pace
from stepscope.model import names
from stepscope.model.details import LayerTime
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started
from tests.unit.collect.sampling import Sampled, folded, train

Fold = Callable[[], dict[str, LayerTime]]


@pytest.fixture
def layers(recorder: Recorder, tmp_path: Path) -> Fold:
    """The layers by path."""

    def get() -> dict[str, LayerTime]:
        assert recorder.failures == {}
        return {layer.path: layer for layer in folded(recorder, tmp_path / "all.frames").layers}

    return get


class Sleeps(nn.Module):
    """Takes long, forward or backward."""

    def __init__(self, forward: float = 0.0, backward: float = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.seconds = forward, backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds[0])
        return SleepsBackward.apply(self.linear(x), self.seconds[1])


class SleepsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        time.sleep(ctx.seconds)
        return gradients[0], None


def slept(expected_ms: float, found_ms: float | None) -> bool:
    """A sleep is never shorter; on a machine that has other work it is somewhat longer."""
    return found_ms is not None and expected_ms <= found_ms < expected_ms + 12


def rows() -> tuple[torch.Tensor]:
    return (torch.randn(4, 8),)


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.Dropout(0.2), nn.Flatten()),
        nn.Linear(4 * 4 * 4, 2),
    )


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 10)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(words))[0])


class Branches(nn.Module):
    """Three projections of one input, a module that is shared, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (Sleeps(backward=s) for s in (0.01, 0.03, 0.05))
        self.act = nn.Tanh()
        self.same_act = self.act
        self.twice = nn.Linear(8, 8)
        self.unused = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.twice(self.twice(x)))
        return self.same_act(self.q(x) + self.k(x) * self.v(x))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)), rows),
    "conv": (conv_net, lambda: (torch.randn(2, 3, 8, 8),)),
    "transformer": (transformer, lambda: (torch.randn(2, 5, 8),)),
    "lstm": (Tagger, lambda: (torch.randint(10, (2, 5)),)),
    "branches": (Branches, rows),
}


@pytest.mark.parametrize("name", MODELS)
def test_training_is_the_same_to_the_bit(name: str, started: Started, layers: Fold) -> None:
    make, batch = MODELS[name]

    def trained() -> tuple[list[float], list[torch.Tensor], torch.Tensor]:
        torch.manual_seed(7)
        model = make()
        return train(model, batch), [p.detach() for p in model.parameters()], torch.rand(3)

    bare = trained()
    started(Sampled())
    sampled = trained()

    assert sampled[0] == bare[0]
    assert all(torch.equal(a, b) for a, b in zip(sampled[1], bare[1], strict=True))
    assert torch.equal(sampled[2], bare[2])  # the generator stands where it stood
    assert layers()[""].calls == 1


@pytest.mark.parametrize("name", MODELS)
def test_every_module_that_was_called_has_its_times(
    name: str, started: Started, layers: Fold
) -> None:
    make, batch = MODELS[name]
    model = make()
    called = set()
    for path, module in model.named_modules():
        module.register_forward_hook(lambda *_, path=path: called.add(path))
    started(Sampled())

    train(model, batch)
    found = layers()

    assert set(found) == called
    assert {path: layer.kind for path, layer in found.items()} == {
        path: type(module).__name__ for path, module in model.named_modules() if path in called
    }
    whole = found[""]
    assert whole.backward_ms is not None
    assert sum(layer.self_forward_ms for layer in found.values()) == pytest.approx(
        whole.forward_ms, rel=0.001
    )
    assert sum(layer.self_backward_ms or 0.0 for layer in found.values()) == pytest.approx(
        whole.backward_ms, rel=0.001
    )


def test_a_slow_layer_is_found_with_its_time(started: Started, layers: Fold) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(Sleeps(0.02), nn.ReLU()), Sleeps(0, 0.03))
    started(Sampled())

    train(model, rows)
    found = layers()

    assert slept(20, found["1.0"].self_forward_ms)
    assert slept(20, found["1"].forward_ms)
    assert slept(30, found["2"].self_backward_ms)
    others = [layer for path, layer in found.items() if path not in ("1.0", "2")]
    assert max(layer.self_forward_ms + (layer.self_backward_ms or 0) for layer in others) < 12


def test_branches_of_one_input_each_have_their_own_backward(started: Started, layers: Fold) -> None:
    started(Sampled())

    train(Branches(), rows, 6)
    found = layers()

    for path, expected in (("q", 10), ("k", 30), ("v", 50)):
        assert slept(expected, found[path].self_backward_ms)
    assert found["twice"].calls == 2
    assert found["act"].calls == 2
    assert "same_act" not in found


def test_what_is_frozen_has_no_backward(started: Started, layers: Fold) -> None:
    model = nn.Sequential(nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 8))
    started(Sampled())

    train(model, rows)

    found = layers()
    assert found["0"].backward_ms is None
    assert found["1"].backward_ms is not None


def test_evaluation_is_not_a_layers_time(started: Started, layers: Fold) -> None:
    started(Sampled())
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        with torch.no_grad():
            model(*rows())
        model(*rows()).sum().backward()
        optimizer.step()

    assert layers()[""].calls == 1


def test_an_exception_passes_and_the_step_goes_on(started: Started, layers: Fold) -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.fails = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.linear(x)
            self.fails = not self.fails
            if not self.fails:
                raise KeyError("mine")
            return x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Fails()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with pytest.raises(KeyError, match="mine"):
                self.part(x)
            return self.part(x)

    started(Sampled())
    train(Net(), rows)

    found = layers()
    assert found["part"].calls == 1
    assert found["part.linear"].calls == 2


def test_nothing_is_left_on_modules_between_and_during(started: Started) -> None:
    class Looks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            copies.append(copy.deepcopy(model))
            pickle.loads(pickle.dumps(model[0]))
            return x

    copies: list[nn.Module] = []
    model = nn.Sequential(nn.Linear(8, 8), Looks())
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    called = torch.nn.Module.__call__
    started(Sampled())
    train(model, rows, 3)

    assert len(copies) == 3
    for name, module in model.named_modules():
        assert vars(module).keys() == before[name].keys()
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._backward_hooks
    assert torch.nn.Module.__call__.__wrapped__ is called


def test_hooks_of_the_program_run_as_ever(started: Started, layers: Fold) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    seen: list[str] = []
    model[1].register_forward_hook(lambda *_: seen.append("forward"))
    model[1].register_full_backward_hook(lambda *_: seen.append("backward"))
    started(Sampled())

    train(model, rows, 3)

    assert seen == ["forward", "backward"] * 3
    assert layers()["1"].backward_ms is not None


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_forwards_belong_to_backward(
    reentrant: bool, started: Started, recorder: Recorder, tmp_path: Path
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block = nn.Linear(8, 8), Sleeps(0.01)

        def forward(self, x: torch.Tensor) -> Any:
            return checkpoint(self.block, self.first(x), use_reentrant=reentrant)

    started(Sampled())
    train(Net(), rows)
    found = folded(recorder, tmp_path / "all.frames")
    layers = {layer.path: layer for layer in found.layers}

    assert layers["block"].calls == 1
    assert slept(10, layers["block"].forward_ms)
    assert layers[""].backward_ms is not None
    assert layers[""].backward_ms > 9


@pytest.mark.filterwarnings("ignore")  # torch.compile warns of itself
def test_a_compiled_part_is_timed_as_a_whole(started: Started, layers: Fold) -> None:
    inner = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), backend="eager")
    started(Sampled())

    train(nn.Sequential(nn.Linear(8, 8), inner), rows)

    assert set(layers()) == {"", "0", "1"}


def test_two_models_and_a_loss_are_told_apart(started: Started, layers: Fold) -> None:
    started(Sampled())
    large, small = nn.Sequential(nn.Linear(8, 8), Sleeps(0.005)), nn.Sequential(nn.Linear(8, 8))
    optimizer = torch.optim.SGD([*large.parameters(), *small.parameters()], lr=0.1)
    for _ in range(4):
        nn.MSELoss()(small(*rows()), large(*rows())).backward()
        optimizer.step()

    assert {"", "0", "1", "Sequential", "Sequential.0", "MSELoss"} <= set(layers())


def test_several_optimizers_make_one_step(started: Started, layers: Fold, read: Read) -> None:
    started(Sampled())
    parts = [nn.Linear(8, 8) for _ in range(3)]
    model = nn.Sequential(*parts)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in parts]
    for _ in range(5):
        model(*rows()).sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    assert layers()[""].calls == 1


def test_more_calls_than_can_be_kept_are_timed_less_deep(
    started: Started, layers: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_calls, "MOST_CALLS", 6)
    block = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    model = nn.Sequential(nn.Sequential(block, nn.ReLU()), copy.deepcopy(block))
    started(Sampled())

    train(model, rows, 5)

    assert set(layers()) == {"", "0", "1"}


def test_modules_of_other_threads_are_left_alone(started: Started, layers: Fold) -> None:
    import threading

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=lambda: self.linear(x))
            thread.start()
            thread.join()
            return self.linear(x)

    started(Sampled())
    train(Net(), rows)

    assert layers()["linear"].calls == 1


def test_a_function_transform_inside_is_not_marked(started: Started, layers: Fold) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.func.vmap(self.linear)(x)

    started(Sampled())
    train(Net(), rows)

    assert layers()["linear"].calls == 1


def test_steps_that_are_not_sampled_pay_nothing(started: Started, read: Read) -> None:
    hooks = started(Sampled(Pace(share=1e9, first=3, spread=1.0, most=1)))
    watch = hooks.sampling.watch
    during = []

    class Looks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            during.append(watch.call is not None)
            return x

    train(nn.Sequential(nn.Linear(8, 8), Looks()), rows, 6)

    assert during == [False, False, False, True, False, False]
    assert len(read(names.LAYERS_BEGIN)) == len(read(names.LAYERS_END)) == 1
    assert watch.backward_done is None


def test_while_it_is_calm_no_step_is_looked_at_and_what_had_begun_is_ended(
    started: Started, read: Read
) -> None:
    hooks = started(Sampled())
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def looked_at_after(steps: int) -> int:
        for _ in range(steps):
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
        return len(read(names.LAYERS_END))

    assert looked_at_after(4) > 1
    hooks.sampling.set_calm(True)
    before = looked_at_after(1)
    assert looked_at_after(8) == before == len(read(names.LAYERS_BEGIN))
    hooks.sampling.set_calm(False)
    assert looked_at_after(4) > before
