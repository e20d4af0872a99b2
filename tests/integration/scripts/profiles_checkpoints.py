"""Profiles a model whose blocks are recomputed, and tells what it saw as one line of JSON."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from stepscope import (
    CheckpointManager,
    CheckpointMonitor,
    CheckpointProfiler,
    OptimizationRecommender,
)
from stepscope.checkpointing.meter import CpuMeter
from stepscope.session.header import Moment
from stepscope.session.inside import inside
from stepscope.session.program import program_here

STEPS, BATCH, WIDTH = 3, 256, 128
told: dict[str, Any] = {}


class Block(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)

    def forward(self, x: Tensor) -> Tensor:  # (batch, width), both ways
        return x + self.down(F.gelu(self.up(x)))


class Heavy(nn.Module):
    """Much to compute, little to keep: what a product with a constant needs is the constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mix", torch.eye(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(400):
            x = x @ self.mix
        return F.relu(x)


class Model(nn.Module):
    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own  # checkpoints of its own
        hidden = (512, 1024, 2048, 1024, 512)
        self.blocks = nn.ModuleList([*(Block(size) for size in hidden), Heavy()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.own else block(x)
        return x


def step(model: Model) -> None:
    model(torch.randn(BATCH, WIDTH)).square().mean().backward()
    model.zero_grad()


def end_to_end() -> None:
    """The peak without and with the manager's checkpoints, and what the profiler says."""
    torch.manual_seed(0)
    model = Model(own=False)
    with CheckpointManager(model) as manager:
        manager.checkpoint("blocks.*")
        peaks = [peak_bytes(model, manager, is_on) for is_on in (False, True)]
        told["saved_bytes"] = peaks[0] - peaks[1]
        with CheckpointProfiler(manager, manager.engine) as profiler:
            profiler.start_profiling()
            for _ in range(STEPS):
                step(model)
            summary = profiler.get_summary()
            told["end_to_end"] = summary.as_json()
            told["report"] = str(summary)
            told["events"] = [
                (event.event_type.value, event.layer_id) for event in profiler.events()
            ][: 3 * len(model.blocks)]


def peak_bytes(model: Model, manager: CheckpointManager, is_on: bool) -> int:
    """Of a step, by the ledger alone."""
    manager.switch(is_on)
    step(model)
    meter = CpuMeter()
    live_bytes = meter.mark().live_bytes
    for _ in range(STEPS):
        step(model)
    peak = meter.mark().peak_bytes - live_bytes
    meter.close()
    return peak


def watched() -> None:
    """A program's own checkpoints: a monitor looks before and after backward."""
    model, exceeded = Model(own=True), []
    manager = CheckpointManager()
    with CheckpointProfiler(manager, manager.engine) as profiler:
        profiler.start_profiling()
        kept = 6 * BATCH * WIDTH * 4  # the inputs of six blocks, float32
        for threshold in (kept, kept - 1):
            with CheckpointMonitor(profiler, threshold, 0, monitor_interval_ms=1e6) as monitor:
                monitor.memory_threshold_exceeded.append(
                    lambda _, what: exceeded.append(what.current_memory_usage)
                )
                monitor.recomputation_threshold_exceeded.append(lambda *_: exceeded.append("long"))
                loss = model(torch.randn(BATCH, WIDTH, requires_grad=True)).sum()
                monitor.check_thresholds()
                loss.backward()
                del loss
                monitor.check_thresholds()
        told["exceeded"], told["kept"] = exceeded, kept
        by_hand = torch.zeros(1000)
        manager.register_checkpoint("by hand", by_hand)
        told["in_use_by_hand"] = profiler.get_summary().memory_in_use_bytes
        manager.deallocate_checkpoint("by hand")
        told["in_use"] = profiler.get_summary().memory_in_use_bytes


def advised() -> None:
    model = Model(own=True)
    manager = CheckpointManager()
    with CheckpointProfiler(manager, manager.engine) as profiler:
        profiler.start_profiling()
        for _ in range(STEPS):
            step(model)
        found = OptimizationRecommender().generate_recommendations(profiler.get_summary())
        told["advised"] = [(one.type.value, one.affected_layer_id) for one in found]


def hooked() -> None:
    """Whether modules and optimizers are seen: by now, and once somebody wants it."""
    program = program_here("", Moment.now())
    told["hooked"] = [program._hooked]
    inside()
    told["hooked"].append(program._hooked)


torch.set_num_threads(1)
end_to_end()
watched()
advised()
hooked()
print(json.dumps(told))
