"""Training in which a leak, a stall and a slow-down happen at known steps.

    troubled.py WHAT…    e.g. leak=100:200 stall=260 slow=330:430

Prints what happened as JSON at the end. Steps take some 20 ms, most of it asleep, so that another
program on the machine changes little.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn

STEPS = 500
STEP_S, STALL_S = 0.02, 6.0
KEPT_BYTES = 4 << 20
kept: list[torch.Tensor] = []


def leak(step: int) -> None:
    kept.append(torch.full((KEPT_BYTES // 4,), float(step)))  # LEAK


def stall() -> None:
    time.sleep(STALL_S)  # STALL


def slow() -> None:
    time.sleep(1.5 * STEP_S)  # SLOW


def between(value: str, step: int) -> bool:
    """Whether a step lies in "100:200"."""
    first, _, last = value.partition(":")
    return int(first) <= step < int(last or int(first) + 1)


def train(wishes: dict[str, str], steps: int) -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    inputs, target = torch.randn(64, 32), torch.randn(64, 1)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), target)
        loss.backward()
        time.sleep(STEP_S)
        if "leak" in wishes and between(wishes["leak"], step):
            leak(step)
        if "stall" in wishes and between(wishes["stall"], step):
            stall()
        if "slow" in wishes and between(wishes["slow"], step):
            slow()
        optimizer.step()


if __name__ == "__main__":
    asked = dict(word.split("=", 1) for word in sys.argv[1:])
    torch.manual_seed(0)
    train(asked, int(asked.pop("steps", STEPS)))
    print(json.dumps({"kept_bytes": sum(one.nbytes for one in kept)}))
