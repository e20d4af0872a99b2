"""Details as a real run might have them, made up: nothing in them was measured."""

from __future__ import annotations

import math

from stepscope.model.details import (
    Details,
    FlameNode,
    HotLine,
    LayerTime,
    OpTime,
    PhaseStacks,
    Pipeline,
    SlowSample,
    StageTime,
)
from stepscope.model.finding import Location
from stepscope.model.timeline import ResourcePoint, StepBucket, Timeline
from tests.unit.report.made_memory import made_memory

FILE = "train.py"


def made_details(file: str = FILE) -> Details:
    return Details(
        pipeline=made_pipeline(),
        stacks=made_stacks(file),
        layers=made_layers(),
        layer_steps=6,
        ops=made_ops(),
        op_steps=3,
        traits={"torch.threads": 4},
        timeline=made_timeline(),
        memory=made_memory(file),
    )


def made_pipeline() -> Pipeline:
    return Pipeline(
        workers=2,
        batches=1200,
        stages=(
            StageTime("sample", "worker", 41.2, 37.9, 1.1, 2.2, 1.78, 38400),
            StageTime("collate", "worker", 3.1, 3.0, 0.1, 0.0, 0.13, 1200),
            StageTime("serialise", "feeder", 1.4, 1.2, 0.1, 0.1, 0.06, 1200),
            StageTime("deserialise", "main", 0.4, 0.3, 0.0, 0.1, 0.02, 1200),
            StageTime("pin", "pin", 0.3, None, None, None, 0.013, 1200),
        ),
        transforms=(
            StageTime("RandomResizedCrop", "worker", 22.4, 21.8, 0.5, 0.1, 0.97, 38400),
            StageTime("ColorJitter", "worker", 9.1, 9.0, 0.1, 0.0, 0.39, 38400),
            StageTime("Normalize", "worker", 2.2, 2.2, 0.0, 0.0, 0.1, 38400),
        ),
        samples=38400,
        sample_ms={"p50": 1.11, "p95": 2.4, "p99": 9.8, "max": 210.0},
        slow_samples=(SlowSample(1733, 210.0, 1), SlowSample(48, 187.5, 0)),
        tail_share=0.12,
        worker_idle_share=0.02,
        startup_ms=412.0,
        starts=3,
        bytes_per_batch=19.3e6,
        read_bytes_per_batch=1.2e6,
        read_chars_per_batch=3.4e6,
        write_bytes_per_batch=0.0,
        system_ms_per_batch=2.5,
        batch_ms={"p50": 35.0, "p95": 48.0, "p99": 61.0, "max": 240.0},
        slow_batch_share=0.04,
    )


def made_stacks(file: str = FILE) -> tuple[PhaseStacks, ...]:
    line = Location(file, 12, "__getitem__")
    hot = (
        HotLine(line, 0.62, 0.58, 0.4, 2130),
        HotLine(Location(file, 9, "__getitem__"), 0.21, 0.2, None, 720),
        HotLine(Location(file, 14, "augment"), 0.09, 0.01, 1.0, 310),
    )
    return (
        PhaseStacks("input wait", "worker", 52_000.0, 3430, hot, made_flame(file, 12)),
        PhaseStacks("forward", "main", 9_000.0, 880, hot[1:], made_flame(file, 7)),
        PhaseStacks("backward", "main", 12_000.0, 1180),
    )


def made_flame(file: str, depth: int) -> FlameNode:
    return _frame(file, 0, depth, 52_000.0)


def _frame(file: str, level: int, depth: int, ms: float) -> FlameNode:
    names = ("main", "train_epoch", "__next__", "fetch", "__getitem__", "decode", "augment", "crop")
    children: tuple[FlameNode, ...] = ()
    if level + 1 < depth and ms > 60:
        shares = (0.61, 0.22, 0.11) if level % 2 else (0.97,)
        children = tuple(_frame(file, level + 1, depth, ms * share) for share in shares)
    own = level < 2 or level % 8 in (4, 6)
    where = file if own else f"site-packages/torch/utils/data/{names[level % 8]}.py"
    return FlameNode(names[level % len(names)], where, 10 + level, ms, children)


def made_layers() -> tuple[LayerTime, ...]:
    layers = [LayerTime("", "Net", 1.0, 21.0, 39.0, 0.4, 0.2, None)]
    for number in range(10):
        path, ms = f"encoder.layers.{number}", 2.0 - number / 20
        layers.append(
            LayerTime(path, "EncoderLayer", 1.0, ms, 1.9 * ms, 0.1, 0.15, 18e6 - number * 1e6)
        )
        layers.append(LayerTime(f"{path}.attention", "Attention", 1.0, ms / 2, ms, 0.6, 0.9, 9e6))
        layers.append(LayerTime(f"{path}.mlp", "Sequential", 1.0, ms / 3, None, 0.4, None, 4e6))
    return tuple(layers)


def made_ops() -> tuple[OpTime, ...]:
    names = ("aten::addmm", "aten::bmm", "aten::_softmax", "aten::native_layer_norm", "aten::gelu")
    return tuple(
        OpTime(name, 72.0 - 9 * at, 14.0 / (at + 1), 0.31 / (at + 1))
        for at, name in enumerate(names)
    )


def made_timeline(buckets: int = 400) -> Timeline:
    made, points, start = [], [], 0.0
    for number in range(buckets):
        wave = 1 + 0.3 * math.sin(number / 17) + (0.5 if number % 100 == 0 else 0)
        ms = (
            130.0 * wave if number else 2900.0,
            24.0,
            36.0,
            6.0,
            900.0 if number % 100 == 99 else 0.0,
            3.0,
        )
        made.append(StepBucket(round(start, 3), 3 * number, 3, ms))
        points.append(
            ResourcePoint(
                start,
                program_cores=1.0 + 0.2 * math.sin(number / 9),
                children_cores=1.8 + 0.1 * math.cos(number / 5),
                program_rss_bytes=1.1e9 + 4e5 * number,
                children_rss_bytes=0.9e9,
            )
        )
        start += sum(ms)
    phases = ("input wait", "forward", "backward", "optimizer", "evaluation", "python between")
    return Timeline(0, start, phases, tuple(made), tuple(points), cpu_count=4.0)
