"""Trains until a file appears. Every step keeps its batch; with "stall" the loop stands still at
its tenth step until then. Prints how many different losses there were: nothing is learned."""

import sys
import time
from pathlib import Path

import torch

stop, mode = Path(sys.argv[1]), sys.argv[2]
kept = []


def prepare() -> torch.Tensor:
    spent = time.process_time() + 0.004
    while time.process_time() < spent:
        pass
    return torch.ones(16, 64)


def wait() -> None:
    while not stop.exists():
        time.sleep(0.02)


def train() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    number, losses = 0, set()
    while not stop.exists():
        batch = prepare()
        kept.append(batch)
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.add(loss.item())
        number += 1
        if mode == "stall" and number == 10:
            wait()
    print(len(losses))


train()
