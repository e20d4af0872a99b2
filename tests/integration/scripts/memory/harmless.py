"""Memory that grows and is no leak: a cache that fills, Adam's state that comes late, batches that
become larger."""

from __future__ import annotations

import functools

import torch

STEPS = 80
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
late = torch.nn.Linear(8, 4096)
optimizer = torch.optim.Adam([*model.parameters(), *late.parameters()])


@functools.lru_cache(maxsize=24)
def positions(number: int) -> torch.Tensor:
    return torch.zeros(50_000) + number


last_batch = None
for step in range(STEPS):
    last_batch = torch.randn(64 + 8 * step, 64)
    found = model(last_batch)
    loss = found.mean() + positions(step).mean()
    if step >= STEPS // 2:  # only now its state is made
        loss = loss + late(found).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
