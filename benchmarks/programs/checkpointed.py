"""
Train a small transformer whose blocks the program itself checkpoints, on one thread and one core,
in turns with another run of itself: each `go` from a pipe is worth a few steps, and is answered
with `done`. With --profiled a CheckpointProfiler is on; without, nothing of stepscope is imported.

    python benchmarks/programs/checkpointed.py OUT.json --turns FOLDER --profiled
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("out", type=Path)
parser.add_argument("--turns", type=Path, required=True)
parser.add_argument("--turn-steps", type=int, default=5)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--profiled", action="store_true")
args = parser.parse_args()

batch, context, vocabulary, width, heads, layers = 8, 32, 256, 128, 4, 6
torch.set_num_threads(1)
torch.manual_seed(1337)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:  # (batch, context, width), both ways
        q, k, v = (
            self.qkv(self.norm1(x)).view(batch, context, 3 * heads, -1).transpose(1, 2).chunk(3, 1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:  # (batch, context) -> (batch, context, vocabulary)
        x = self.tokens(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


model = Transformer()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
data = torch.randint(vocabulary, (args.steps, batch, context + 1))
step_s: list[float] = []
losses: list[float] = []
result: dict[str, object] = {"step_s": step_s, "losses": losses}


def train() -> None:
    # On one core: two cores of a shared machine are never equally fast.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    go, done = os.open(args.turns / "go", os.O_RDONLY), os.open(args.turns / "done", os.O_WRONLY)
    for step, window in enumerate(data):
        if step % args.turn_steps == 0:
            if step:
                os.write(done, b".")
            os.read(go, 1)
        before = time.perf_counter()
        logits = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        step_s.append(time.perf_counter() - before)
    os.write(done, b".")


if args.profiled:
    from stepscope import CheckpointManager, CheckpointProfiler

    manager = CheckpointManager()
    with CheckpointProfiler(manager, manager.engine) as profiler:
        profiler.start_profiling()
        train()
        result["events"] = profiler.get_summary().total_events
else:
    train()
args.out.write_text(json.dumps(result))
