"""Trains a stack of equal blocks: with 21 instead of 20 a step has 5 % more to do.

Blocks are all there is to a step: forward, backward and the optimizer's share of them. Outside them
stand the batch and the loss only, about a hundredth of it.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn

WIDTH, BATCH = 128, 128


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + torch.relu(self.linear(self.norm(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Block() for _ in range(arguments.blocks)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH)
    for _ in range(arguments.steps):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
