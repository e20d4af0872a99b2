"""
Train a small transformer on random tokens, on one thread. What benchmarks/overhead.py runs under
each tool: it writes down the time of each of its own steps, and nothing in it knows the tools
(except torch.profiler, which has no other way in).

    python benchmarks/programs/transformer.py OUT.json --steps 90

With --turns FOLDER it takes turns with another run of itself: each `go` from a pipe there is worth
a few steps, and is answered with `done`.
"""

import time

first_line = (
    time.monotonic()
)  # the clock of the whole machine: the benchmark compares it with its own

import argparse  # noqa: E402
import atexit  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

torch_ready = time.monotonic()

parser = argparse.ArgumentParser()
parser.add_argument("out", type=Path)
parser.add_argument("--steps", type=int, default=90)
parser.add_argument("--torch-profiler", action="store_true")
parser.add_argument("--turns", type=Path)
parser.add_argument("--turn-steps", type=int, default=15)
args = parser.parse_args()

batch, context, vocabulary, width, heads, layers = 8, 64, 256, 128, 4, 2
torch.set_num_threads(1)
torch.manual_seed(1337)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:  # (batch, context, width), both ways
        q, k, v = (
            self.qkv(self.norm1(x)).view(batch, context, 3 * heads, -1).transpose(1, 2).chunk(3, 1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, context, width))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:  # (batch, context) -> (batch, context, vocabulary)
        x = self.tokens(tokens) + self.positions(torch.arange(context))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


data = TensorDataset(torch.randint(vocabulary, (args.steps * batch, context + 1)))
loader = DataLoader(data, batch, shuffle=True)
model = Transformer()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)


class Turns:
    """Waits outside the measured time until it is this run's turn."""

    def __init__(self, folder: Path) -> None:
        # On one core: two cores of a shared machine are never equally fast.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self.go = os.open(folder / "go", os.O_RDONLY)
        self.done = os.open(folder / "done", os.O_WRONLY)

    def take(self, first: bool) -> None:
        if not first:
            self.give_back()
        os.read(self.go, 1)

    def give_back(self) -> None:
        os.write(self.done, b".")


step_s: list[float] = []
losses: list[float] = []


def train() -> None:
    batches = iter(loader)
    turns = Turns(args.turns) if args.turns else None
    for step in range(args.steps):
        if turns and step % args.turn_steps == 0:
            turns.take(first=step == 0)
        before = time.perf_counter()
        (window,) = next(batches)
        logits = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        step_s.append(time.perf_counter() - before)
    if turns:
        turns.give_back()


@atexit.register
def write() -> None:
    """The last thing the program does, so that the peak covers what a tool does at the end too."""
    # nanoseconds that this thread ran, and that it was ready but another one had the CPU
    ran, waited = map(int, Path("/proc/self/schedstat").read_text().split()[:2])
    memory = dict(re.findall(r"(VmHWM|VmRSS):\s+(\d+) kB", Path("/proc/self/status").read_text()))
    result = {
        "first_line": first_line,
        "torch_ready": torch_ready,
        "step_s": step_s,
        "contention": waited / (ran + waited),
        "losses": losses,
        "peak_rss_bytes": int(memory["VmHWM"]) * 1024,
        "rss_bytes": int(memory["VmRSS"]) * 1024,
    }
    args.out.write_text(json.dumps(result))


with torch.profiler.profile() if args.torch_profiler else contextlib.nullcontext():
    train()
