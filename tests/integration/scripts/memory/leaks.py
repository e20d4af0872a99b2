"""Keeps a tensor of a given number of bytes with every step: leaks.py BYTES STEPS."""

from __future__ import annotations

import sys

import torch

size, steps = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters())
kept: list[torch.Tensor] = []


def keep() -> None:
    kept.append(torch.zeros(size // 4))  # the leak


for _ in range(steps):
    loss = model(torch.randn(32, 64)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    keep()
