"""Three models of unequal blocks in an nn.Sequential, and a step of training for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["MODELS", "Trained", "deep_chain", "make"]

MODELS = ("transformer", "resnet", "mixer")
_WORDS, _DIM, _LENGTH = 1000, 128, 128


class Trained(NamedTuple):
    model: nn.Module  # its blocks are model.blocks
    step: Callable[[Callable[..., Any]], None]  # with what is to be called in the model's place


class _Attention(nn.Module):
    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.middle = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        batch, length, dim = x.shape
        qkv = self.qkv(self.before(x)).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, dim)
        x = x + self.drop(self.out(seen))
        return x + self.drop(self.down(F.gelu(self.up(self.middle(x)))))


class _Residual(nn.Module):
    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, made, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(made), nn.BatchNorm2d(made)
        plain = given == made and stride == 1
        self.short = nn.Identity() if plain else nn.Conv2d(given, made, 1, stride)

    def forward(self, x: Any) -> Any:
        inner = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(inner)) + self.short(x))


class _Mixer(nn.Module):
    def __init__(self, tokens: int, dim: int, across: int, within: int) -> None:
        super().__init__()
        self.before, self.middle = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across = nn.Sequential(nn.Linear(tokens, across), nn.GELU(), nn.Linear(across, tokens))
        self.within = nn.Sequential(
            nn.Linear(dim, within), nn.GELU(), nn.Dropout(0.1), nn.Linear(within, dim)
        )

    def forward(self, x: Any) -> Any:
        x = x + self.across(self.before(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.middle(x))


class _Model(nn.Module):
    def __init__(self, first: nn.Module, blocks: list[nn.Module], last: nn.Module) -> None:
        super().__init__()
        self.first, self.blocks, self.last = first, nn.Sequential(*blocks), last

    def forward(self, x: Any) -> Any:
        return self.last(self.blocks(self.first(x)))


class _Pooled(nn.Module):
    def __init__(self, given: int, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.dims, self.out = dims, nn.Linear(given, 10)

    def forward(self, x: Any) -> Any:
        return self.out(x.mean(self.dims))


def make(name: str) -> Trained:
    torch.manual_seed(0)
    if name == "transformer":
        hidden = (256, 512, 1024, 256, 768, 512, 1024, 384, 640, 512, 896, 256)
        blocks: list[nn.Module] = [_Attention(_DIM, 4, one) for one in hidden]
        model = _Model(nn.Embedding(_WORDS, _DIM), blocks, nn.Linear(_DIM, _WORDS))
        x, y = torch.randint(_WORDS, (20, _LENGTH)), torch.randint(_WORDS, (20 * _LENGTH,))
    elif name == "resnet":
        widths = (16, 16, 16, 32, 32, 32, 32, 64, 64, 64, 64, 64, 64)
        pairs = zip((16, *widths), widths, strict=False)
        blocks = [_Residual(a, b, 1 if a == b else 2) for a, b in pairs]
        model = _Model(nn.Conv2d(3, 16, 3, 1, 1), blocks, _Pooled(64, (2, 3)))
        x, y = torch.randn(48, 3, 48, 48), torch.randint(10, (48,))
    else:
        across = (64, 128, 256, 64, 192, 128, 96, 256, 64, 160, 128, 64, 192, 96)
        within = (256, 512, 256, 768, 384, 256, 640, 512, 256, 512, 384, 896, 256, 512)
        blocks = [_Mixer(64, _DIM, *one) for one in zip(across, within, strict=True)]
        model = _Model(nn.Linear(48, _DIM), blocks, _Pooled(_DIM, (1,)))
        x, y = torch.randn(64, 64, 48), torch.randint(10, (64,))
    return Trained(model, _step_of(model, x, y))


def deep_chain(blocks: int) -> Trained:
    """Many small blocks: what planning itself takes."""
    torch.manual_seed(0)
    made: list[nn.Module] = [_Attention(32, 2, 32 * (1 + at * 7 % 5)) for at in range(blocks)]
    model = _Model(nn.Identity(), made, _Pooled(32, (1,)))
    return Trained(model, _step_of(model, torch.randn(4, 64, 32), torch.randint(10, (4,))))


def _step_of(model: nn.Module, x: Any, y: Any) -> Callable[[Callable[..., Any]], None]:
    optimizer = torch.optim.AdamW(model.parameters())

    def step(call: Callable[..., Any]) -> None:
        optimizer.zero_grad()
        out = call(x)
        F.cross_entropy(out.view(-1, out.shape[-1]), y).backward()
        optimizer.step()

    return step
