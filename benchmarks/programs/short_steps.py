"""
Train a small model in steps of a given length. What benchmarks/overhead.py runs bare and under
stepscope: it takes turns with another run of itself and writes down how long each of its turns was.

    python benchmarks/programs/short_steps.py OUT.json FOLDER --subject 1ms --turns 20 --steps 200
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

# Width of the layers, their number, and samples in a batch.
SIZES = {
    "0.2ms": (16, 4, 8),
    "1ms": (96, 12, 48),
    "5ms": (256, 12, 64),
    "30ms": (512, 12, 128),
    "300ms": (1024, 12, 320),
    "ddp": (256, 12, 64),
    "workers": (16, 2, 8),
}

parser = argparse.ArgumentParser()
parser.add_argument("out", type=Path)
parser.add_argument("folder", type=Path)
parser.add_argument("--subject", choices=SIZES, required=True)
parser.add_argument("--turns", type=int, required=True)
parser.add_argument("--steps", type=int, required=True, help="in one turn")
args = parser.parse_args()

width, depth, batch = SIZES[args.subject]
rank = int(os.environ.get("RANK", "0"))
torch.manual_seed(1337)


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """What workers that start anew each epoch load."""

    def __len__(self) -> int:
        return int(args.steps) * batch

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.randn(width), torch.randn(width)


layers: list[nn.Module] = []
for _ in range(depth):
    layers += [nn.Linear(width, width), nn.ReLU()]
model: nn.Module = nn.Sequential(*layers)
if args.subject == "ddp":
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
elif args.subject != "workers":
    # On one core: two cores of a shared machine are never equally fast.
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def batches() -> Callable[[], Iterator[list[Tensor]]]:
    """Gives the batches of one turn: an epoch, where there is a loader."""
    if args.subject == "workers":
        workers = DataLoader(Samples(), batch, num_workers=2)
        return lambda: iter(workers)
    x, y = torch.randn(batch, width), torch.randn(batch, width)
    if args.subject in ("0.2ms", "1ms"):
        return lambda: ([x, y] for _ in range(args.steps))
    data = TensorDataset(x.repeat(args.steps, 1), y.repeat(args.steps, 1))
    loader = DataLoader(data, batch, shuffle=True)
    return lambda: iter(loader)


def turn(epoch: Callable[[], Iterator[list[Tensor]]]) -> tuple[float, float]:
    """How long it was, and how much CPU this thread used in it."""
    began, began_cpu = time.perf_counter(), time.thread_time()
    for x, y in epoch():
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - began, time.thread_time() - began_cpu


def main() -> None:
    epoch = batches()
    if rank:  # waits for rank 0, in the first collective of each turn
        for _ in range(args.turns):
            turn(epoch)
        return
    go = os.open(args.folder / "go", os.O_RDONLY)
    done = os.open(args.folder / "done", os.O_WRONLY)
    taken = []
    for _ in range(args.turns):
        os.read(go, 1)
        taken.append(turn(epoch))
        os.write(done, b".")
    turn_s, cpu_s = zip(*taken, strict=True)
    args.out.write_text(json.dumps({"turn_s": turn_s, "cpu_s": cpu_s}))


if __name__ == "__main__":
    main()
