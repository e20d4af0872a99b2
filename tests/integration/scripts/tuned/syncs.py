"""A program whose log is on the disk after every step, whatever happens next."""

import os

import torch
from torch import nn

torch.set_num_threads(1)  # a model this small gains nothing from more
torch.manual_seed(0)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
with open("log.txt", "wb") as log:  # noqa: PTH123 - as many write it
    for step in range(400):
        loss = model(torch.randn(64, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.write(f"{step} {loss.item():.6f}\n".encode())
        log.flush()
        os.fsync(log.fileno())
