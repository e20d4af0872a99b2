"""
Train one of three small models on random data, on one thread. What benchmarks/memory_overhead.py
runs under each tool: it writes down the time of its own steps and its own memory, and nothing in it
knows the tools (except torch.profiler, which has no other way in).

    python benchmarks/programs/three_models.py OUT.json --model cnn --steps 150
"""

import atexit
import json
import re
from pathlib import Path
from typing import Any

seen: dict[str, Any] = {}  # what is told in the end


def memory_bytes(name: str) -> int:
    """VmRSS: what the process holds. VmHWM: the most that it ever held."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


@atexit.register
def write() -> None:
    """Registered first, so called last: the peak covers what a tool does at the end too."""
    if seen:
        args.out.write_text(json.dumps({**seen, "peak_rss_bytes": memory_bytes("VmHWM")}) + "\n")


import argparse  # noqa: E402
import contextlib  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, context: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:  # (batch, context) -> (batch, vocabulary, context)
        return self.head(self.blocks(self.tokens(tokens) + self.positions)).transpose(1, 2)


def convolution(channels_in: int, channels_out: int) -> nn.Sequential:  # halves height and width
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


Batch = tuple[Tensor, Tensor]


def tiny() -> tuple[nn.Module, Callable[[], Batch]]:
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    return model, lambda: (torch.randn(32, 64), torch.randint(10, (32,)))


def transformer() -> tuple[nn.Module, Callable[[], Batch]]:
    batch, context, vocabulary = 16, 64, 256
    model = Transformer(vocabulary, context, width=128)

    def draw() -> Batch:
        tokens = torch.randint(vocabulary, (batch, context + 1))
        return tokens[:, :-1], tokens[:, 1:]

    return model, draw


def cnn() -> tuple[nn.Module, Callable[[], Batch]]:
    model = nn.Sequential(
        convolution(3, 16),  # 32 × 32 pixels in
        convolution(16, 32),
        convolution(32, 64),  # 4 × 4 out
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )
    return model, lambda: (torch.randn(32, 3, 32, 32), torch.randint(10, (32,)))


MODELS = {"tiny": tiny, "transformer": transformer, "cnn": cnn}

parser = argparse.ArgumentParser()
parser.add_argument("out", type=Path)
parser.add_argument("--model", choices=MODELS, required=True)
parser.add_argument("--steps", type=int, default=100, help="that are timed")
parser.add_argument("--warmup", type=int, default=20, help="steps before them")
parser.add_argument("--torch-profiler", action="store_true")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(1337)
model, draw = MODELS[args.model]()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def step() -> float:
    inputs, wanted = draw()
    loss = F.cross_entropy(model(inputs), wanted)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return float(loss.item())


def train() -> None:
    for _ in range(args.warmup):
        step()
    step_ns, loss = [], 0.0
    cpu_began_ns, began_ns = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(args.steps):
        before_ns = time.perf_counter_ns()
        loss = step()
        step_ns.append(time.perf_counter_ns() - before_ns)
    ended_ns, cpu_ended_ns = time.perf_counter_ns(), time.process_time_ns()
    seen.update(
        step_ns=step_ns,
        total_ns=ended_ns - began_ns,  # what happens between steps too
        cpu_ns=cpu_ended_ns - cpu_began_ns,  # of all threads of this process
        loss=loss,
        rss_bytes=memory_bytes("VmRSS"),
    )


with (
    torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, record_shapes=False
    )
    if args.torch_profiler
    else contextlib.nullcontext()
):
    train()
