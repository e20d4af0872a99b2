"""A network whose memory can be worked out by hand: see tests/integration/test_memory_run.py."""

from __future__ import annotations

import torch

BATCH, NARROW, WIDE = 512, 1024, 4096
PAD = 16 * 1024 * 1024  # floats, only while forward ends: there the peak is


class Known(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.widen = torch.nn.Linear(NARROW, WIDE, bias=False)
        self.narrow = torch.nn.Linear(WIDE, NARROW, bias=False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        found = self.narrow(torch.relu(self.widen(batch)))
        pad = torch.empty(PAD)
        del pad
        return found


model = Known()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
for _ in range(12):
    batch = torch.randn(BATCH, NARROW)
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del batch, loss
