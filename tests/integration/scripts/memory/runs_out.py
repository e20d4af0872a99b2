"""Leaks until it dies of a limit: runs_out.py BYTES_A_STEP BYTES_OF_ROOM."""

from __future__ import annotations

import resource
import sys
import time

import torch

size, room = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
step = 0
while True:
    loss = model(torch.randn(32, 64)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step == 3:  # by now everything is loaded
        with open("/proc/self/statm") as file:  # noqa: PTH123
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
    print(step, flush=True)
    history.append(torch.ones(size // 4))
    time.sleep(0.005)
