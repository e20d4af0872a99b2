from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from stepscope.collect.saved_bytes import SavedBytes

ROWS = torch.randn(16, 8)
FLOAT = 4


def kept(module: nn.Module, x: torch.Tensor, saved: SavedBytes | None = None) -> int | None:
    return (saved or SavedBytes(torch)).of_call(module, (x,), module(x))


def test_a_linear_layer_keeps_its_input_and_not_its_weights() -> None:
    assert kept(nn.Linear(8, 4), ROWS) == 16 * 8 * FLOAT


def test_a_sigmoid_keeps_its_output() -> None:
    x = ROWS.clone().requires_grad_() * 1
    assert kept(nn.Sigmoid(), x) == 16 * 8 * FLOAT


def test_sparse_tensors_have_no_storage_and_do_not_count() -> None:
    class Neighbours(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", torch.eye(16).to_sparse())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sparse.mm(self.adjacency, x)

    assert kept(Neighbours(), ROWS.clone().requires_grad_() * 1) == 0


def test_what_two_keep_counts_for_the_first_of_them() -> None:
    saved = SavedBytes(torch)
    activation, linear = nn.Tanh(), nn.Linear(8, 4)
    x = ROWS.clone().requires_grad_() * 1
    y = activation(x)
    assert saved.of_call(activation, (x,), y) == 16 * 8 * FLOAT
    assert saved.of_call(linear, (y,), linear(y)) == 0


def test_only_what_the_call_itself_made_is_looked_at() -> None:
    before = nn.Linear(8, 8)
    x = before(ROWS)
    assert kept(nn.Identity(), x) == 0


def test_a_function_of_the_programs_own_is_asked_too() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return 2 * gradients[0]

    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return Double.apply(x)

    assert kept(Doubled(), ROWS.clone().requires_grad_() * 1) == 16 * 8 * FLOAT


def test_what_is_checkpointed_is_left_alone() -> None:
    seen: list[int | None] = []
    calls = 0
    layer = nn.Linear(8, 8)

    def block(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        y: torch.Tensor = layer(x)
        seen.append(SavedBytes(torch).of_call(layer, (x,), y))
        return y

    checkpoint(block, ROWS.clone().requires_grad_(), use_reentrant=False)
    assert seen == [None]
    assert calls == 1, "nothing was computed again"
