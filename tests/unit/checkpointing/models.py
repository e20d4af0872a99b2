"""Small models of every kind that checkpointing has to leave exact, and what a step gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence
from torch.utils.checkpoint import checkpoint

WIDTH = 16


class Step(NamedTuple):
    """All that training could see of a step."""

    loss: torch.Tensor
    gradients: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    random: torch.Tensor  # the next number that the program would draw


def step(model: nn.Module, *given: Any, backwards: int = 1, seed: int = 0) -> Step:
    """One forward and its backward passes, from the same random numbers every time."""
    model.zero_grad()
    torch.manual_seed(seed)
    loss = total(model(*given))
    for left in reversed(range(backwards)):
        loss.backward(retain_graph=left > 0)
    gradients = {
        name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None
    }
    buffers = {name: one.clone() for name, one in model.named_buffers()}
    return Step(loss.detach(), gradients, buffers, torch.rand(()))


def total(value: Any) -> torch.Tensor:
    """A loss that every output has its share in."""
    if isinstance(value, PackedSequence):
        return total(value.data)
    if isinstance(value, torch.Tensor):
        return value.float().square().sum()
    parts = [total(one) for one in value if one is not None]
    return torch.stack(parts).sum()


def assert_same(one: Step, other: Step) -> None:
    """To the bit."""
    assert torch.equal(one.loss, other.loss)
    assert torch.equal(one.random, other.random)
    assert one.gradients.keys() == other.gradients.keys()
    assert one.gradients
    for name, gradient in one.gradients.items():
        assert torch.equal(gradient, other.gradients[name]), name
    for name, buffer in one.buffers.items():
        assert torch.equal(buffer, other.buffers[name]), name


class Transformer(nn.Module):
    """Attention and dropout; masks come as keywords."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.2, batch_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(WIDTH, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(x)


class Conv(nn.Module):
    """Batch norm, whose running statistics forward changes; the first block's input needs no
    gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
                for a, b in ((3, 4), (4, 4), (4, 4), (4, 2))
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


class Statistics(nn.Module):
    """Running statistics without a count of batches: torch does not tell that they change."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.mean: torch.Tensor
        self.variance: torch.Tensor
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("variance", torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = self.linear(x)
        return nn.functional.batch_norm(given, self.mean, self.variance, training=True).tanh()


class Recurrent(nn.Module):
    """LSTMs: tuples go in and come out, and packed sequences."""

    def __init__(self, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.first = nn.LSTM(4, WIDTH, batch_first=True)
        self.second = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.3, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        given: Any = pack_padded_sequence(x, [5, 3], batch_first=True) if self.packed else x
        out, (hidden, cell) = self.first(given)
        return self.second(out, (hidden.repeat(2, 1, 1), cell.repeat(2, 1, 1)))


class Mlp(nn.Module):
    """A plain block; optionally with a checkpoint that the program itself wrote inside."""

    def __init__(self, own_checkpoint: bool = False) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.drop = nn.Dropout(0.3)
        self.own_checkpoint = own_checkpoint

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.own_checkpoint:
            inner = checkpoint(self._inner, x, use_reentrant=False)
            assert isinstance(inner, torch.Tensor)
            return x + self.down(inner)
        return x + self.down(self._inner(x))

    def _inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.nn.functional.gelu(self.up(x)))


class Nested(nn.Module):
    """Blocks in groups, and checkpoints of the program's own inside."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = nn.ModuleList(
            nn.Sequential(Mlp(), Mlp(own_checkpoint=True)) for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for group in self.groups:
            x = group(x)
        return x


class SharedBlock(nn.Module):
    """One module under two names, called several times in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.one = Mlp()
        self.two = self.one
        self.other = Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.other(self.one(self.one(x))))


class Spectral(nn.Module):
    """A forward that reads what it changes: power iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(spectral_norm(nn.Linear(WIDTH, WIDTH)) for _ in range(2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x).tanh()


class Saver(nn.Module):
    """Saves for backward all that can be saved: inputs, parameters, views, results that are not
    differentiable; and returns None among its results."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None, torch.Tensor]:
        best, where = (x @ self.weight).view(-1, 2, WIDTH // 2).max(dim=1)
        half = x[:, : WIDTH // 2]
        return best[: len(x)] * half * half.exp(), None, where


class SaverModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.saver = nn.Linear(WIDTH, WIDTH), Saver()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best, _, where = self.saver(self.before(x))
        return torch.gather(best, 1, where[: len(best)])


class InPlace(nn.Module):
    """Results of dear operators are changed in place, inside a segment and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH))
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
            x += 1
        return x


class InPlaceFirst(nn.Module):
    """Segments that begin by changing what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(
                layer
                for _ in range(3)
                for layer in (nn.Linear(WIDTH, WIDTH), nn.ELU(inplace=True), nn.Dropout(0.2))
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Case(NamedTuple):
    make: Callable[[], nn.Module]
    given: Callable[[], torch.Tensor]
    names: tuple[str, ...]  # of modules to checkpoint


def rows() -> torch.Tensor:
    return torch.randn(6, WIDTH)


CASES = {
    "a transformer with dropout": Case(
        Transformer, lambda: torch.randint(11, (2, 5)), ("blocks.*",)
    ),
    "a CNN with batch norm": Case(Conv, lambda: torch.randn(2, 3, 6, 6), ("blocks.*",)),
    "running statistics without a count": Case(Statistics, rows, ("",)),
    "an LSTM": Case(
        lambda: Recurrent(packed=False), lambda: torch.randn(2, 5, 4), ("first", "second")
    ),
    "an LSTM with packed sequences": Case(
        lambda: Recurrent(packed=True), lambda: torch.randn(2, 5, 4), ("first", "second")
    ),
    "nested blocks": Case(Nested, rows, ("groups.*", "groups.*.*")),
    "a shared module": Case(SharedBlock, rows, ("one", "two", "other")),
    "a spectral norm": Case(Spectral, rows, ("blocks.*",)),
    "changes in place": Case(InPlace, rows, ("blocks.*",)),
    "an argument changed in place": Case(
        InPlaceFirst, rows, ("layers.1", "layers.3", "layers.4", "layers.7")
    ),
    "all that can be saved": Case(SaverModel, rows, ("saver",)),
}


def made(case: Case) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(1)
    return case.make(), case.given()
