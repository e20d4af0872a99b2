"""Objects that refer to themselves hold tensors until garbage is collected."""

from __future__ import annotations

import gc

import torch

gc.disable()


class Episode:
    def __init__(self) -> None:
        self.frames = torch.zeros(100_000)
        self.first = self


model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    episode = Episode()
    loss = model(torch.randn(32, 64)).mean() + episode.frames.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
