"""
Train a small transformer on random tokens, on one thread. What benchmarks/overhead.py runs under
each tool: it writes down the time of each of its own steps, and nothing in it knows the tools
(except torch.profiler, which has no other way in).

    python benchmarks/programs/transformer.py OUT.json --steps 90
"""

import time

first_line = (
    time.monotonic()
)  # the clock of the whole machine: the benchmark compares it with its own

import argparse  # noqa: E402
import atexit  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
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
step_s: list[float] = []
step_cpu_s: list[float] = []
losses: list[float] = []


def train() -> None:
    before, cpu_before = time.perf_counter(), time.thread_time()
    for (window,) in loader:
        logits = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        now, cpu_now = time.perf_counter(), time.thread_time()
        step_s.append(now - before)
        step_cpu_s.append(cpu_now - cpu_before)
        before, cpu_before = now, cpu_now


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
        "step_cpu_s": step_cpu_s,
        "contention": waited / (ran + waited),
        "losses": losses,
        "peak_rss_bytes": int(memory["VmHWM"]) * 1024,
        "rss_bytes": int(memory["VmRSS"]) * 1024,
    }
    args.out.write_text(json.dumps(result))


with torch.profiler.profile() if args.torch_profiler else contextlib.nullcontext():
    train()
