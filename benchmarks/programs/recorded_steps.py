"""
Train a small model on one thread and write down, for each step: when it ended, how long it took,
how long a fixed piece of other work took right after it (the witness: where that is slower, the
machine was), and what the process holds in memory.

    python benchmarks/programs/recorded_steps.py OUT.json --model cnn --steps 800 --memory leak
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KEPT_FLOATS = 60_000  # of what a step keeps, where it keeps something: 240 kB
TOOTH = 40  # steps after which a sawtooth lets go of all

Batch = Callable[[], Tensor]


def mlp() -> tuple[nn.Module, Batch]:
    layers = (nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
    return nn.Sequential(*layers), lambda: torch.randn(64, 256)


def cnn() -> tuple[nn.Module, Batch]:
    first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    head = nn.Sequential(nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(first, second, head), lambda: torch.randn(16, 3, 32, 32)


def transformer() -> tuple[nn.Module, Batch]:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 64, 10))
    return nn.Sequential(blocks, head), lambda: torch.randn(8, 32, 64)


MODELS = {"mlp": mlp, "cnn": cnn, "transformer": transformer}


class Kept:
    """What a step leaves in memory, by the kind of it."""

    def __init__(self, kind: str, steps: int) -> None:
        self.kind, self.steps = kind, steps
        self.tensors: list[Tensor] = []

    def step(self, number: int) -> None:
        fills = self.kind == "cache" and number < self.steps // 4
        if fills or self.kind in ("leak", "sawtooth"):
            self.tensors.append(torch.ones(KEPT_FLOATS))
        if self.kind == "sawtooth" and number % TOOTH == 0:
            self.tensors.clear()


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--memory", choices=("flat", "leak", "cache", "sawtooth"), default="flat")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, batch = MODELS[args.model]()
    optimizer = torch.optim.AdamW(model.parameters())
    kept, left, right = Kept(args.memory, args.steps), torch.randn(256, 256), torch.randn(256, 256)
    rows = []
    for number in range(args.steps):
        began = time.perf_counter()
        x = batch()
        loss = F.cross_entropy(model(x), torch.randint(0, 10, (len(x),)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ended = time.perf_counter()
        torch.mm(left, right)
        witnessed = time.perf_counter()
        kept.step(number)
        rows.append((ended, ended - began, witnessed - ended, resident_bytes()))
    args.out.write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
