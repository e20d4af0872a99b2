"""
Draws a training program: its loop, model, data and faults.

Program `index` of `seed` is determined by these two numbers alone. Times are rough estimates for
one core; what a fault really costs is measured later (measuring.py).
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FAULTS", "Fault", "Plan", "draw"]

# Estimated length of the loop; shorter for a look at many programs on a busy machine.
RUN_MS = 1000 * float(os.environ.get("GENERATE_SECONDS", "3"))
LEAST_STEPS, MOST_STEPS = 12, 6000
START_WORKERS_MS = 60.0

# Weight of each loop shape, the shortest step it is drawn for, and whether a loader may feed it.
SHAPES: Mapping[str, tuple[int, float, bool]] = {
    "plain": (6, 0.0, True),
    "accumulation": (3, 0.0, True),
    "two-optimizers": (2, 0.0, True),
    "closure": (2, 2.0, True),
    "gan": (2, 2.0, True),
    "rl": (2, 10.0, False),
    "ema": (2, 10.0, True),
    "teacher": (2, 2.0, True),
    "evaluation": (3, 0.0, True),
    "amp": (1, 5.0, True),
    "folds": (2, 0.0, True),
    "compiled": (1, 5.0, True),
}

# Forward and backward passes in a step, in those of a plain one.
PASSES = {"closure": 3.0, "gan": 2.5, "teacher": 1.33, "rl": 1.5, "accumulation": 2.0,
          "amp": 4.0}  # fmt: skip

FAMILIES = ("mlp", "cnn", "transformer", "lstm", "embedding")


@dataclass(frozen=True, slots=True)
class Fault:
    """`gain`: how many times faster the program should be without it, by estimate."""

    kind: str
    variant: str
    gain: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A program without its text. `names` are drawn so that no two programs read alike."""

    seed: int
    index: int
    shape: str
    family: str
    source: str  # tensors, loader, batches, workers, iterable
    layout: str  # module, function, class
    step_ms: float
    batch: int
    width: int
    depth: int
    steps_per_epoch: int
    epochs: int
    split: bool  # the step is a function of its own
    names: Mapping[str, str]
    faults: tuple[Fault, ...]

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.epochs

    def extra_ms(self, fault: Fault) -> float:
        """What the fault should add to a step."""
        return self.step_ms * (fault.gain - 1)


@dataclass(frozen=True, slots=True)
class Rule:
    """Where a fault can be planted. `weight`: how often it is drawn."""

    variants: tuple[str, ...]
    weight: float = 1.0
    sources: tuple[str, ...] = ()  # empty: any
    families: tuple[str, ...] = ()
    least_step_ms: float = 0.0
    most_step_ms: float = math.inf
    not_shapes: tuple[str, ...] = ()

    def allows(self, shape: str, family: str, source: str, step_ms: float) -> bool:
        return (
            (not self.sources or source in self.sources)
            and (not self.families or family in self.families)
            and self.least_step_ms <= step_ms <= self.most_step_ms
            and shape not in self.not_shapes
        )


_LOADED = ("loader", "batches", "workers", "iterable")
FAULTS: Mapping[str, Rule] = {
    "input-cpu": Rule(("python", "torch", "zlib"), 2, _LOADED, least_step_ms=0.5),
    "input-io": Rule(("cold", "cache"), 1, _LOADED, least_step_ms=5, most_step_ms=200),
    "input-network": Rule(("http", "socket"), 1, _LOADED, least_step_ms=2),
    "input-collate": Rule(("padding", "pairs"), 1, ("loader", "workers"), least_step_ms=2),
    "input-ipc": Rule(("numpy", "pieces"), 1, ("workers",), least_step_ms=4, most_step_ms=100),
    "input-worker-startup": Rule(("plain", "vocabulary"), 1, ("workers",), least_step_ms=2),
    "input-skew": Rule(("rare",), 1, ("loader", "workers"), least_step_ms=2, most_step_ms=100),
    "python-in-loop": Rule(("scores", "sleep", "history", "inline"), 2),
    "logging-io": Rule(("csv", "lines", "weights"), 1, least_step_ms=1),
    "checkpoint-save": Rule(("state", "pickle"), 1, most_step_ms=300),
    "validation": Rule(("steps",), 1, not_shapes=("rl", "gan")),
    "gc": Rule(("collect", "helper"), 1),
    "gil": Rule(("monitor",), 1, least_step_ms=1),
    "oversubscription": Rule(("threads",), 0.5, families=("mlp", "cnn"), least_step_ms=10),
    "precision": Rule(("double", "default"), 1, families=("mlp", "cnn", "transformer"),
                      least_step_ms=5, not_shapes=("amp", "compiled")),
    "denormals": Rule(("trace",), 1, least_step_ms=1, not_shapes=("amp", "compiled")),
    "layout": Rule(("nchw",), 0.3, families=("cnn",), least_step_ms=10, not_shapes=("amp",)),
    "recompute": Rule(("blocks",), 1, families=("mlp", "cnn", "transformer"), least_step_ms=5,
                      not_shapes=("closure", "compiled")),
    "optimizer": Rule(("loop",), 1, least_step_ms=1, most_step_ms=100,
                      not_shapes=("closure", "gan", "compiled")),
    "host-overhead": Rule(("terms", "losses"), 1, least_step_ms=1, most_step_ms=100,
                          not_shapes=("rl", "gan", "compiled")),
}  # fmt: skip

_NAMES: Mapping[str, tuple[str, ...]] = {
    "model_class": ("Net", "Classifier", "Backbone", "Model", "Network", "Encoder"),
    "dataset_class": ("Samples", "Corpus", "TrainSet", "Records", "Archive", "Clips"),
    "trainer_class": ("Trainer", "Experiment", "Runner", "Engine", "Learner"),
    "train": ("train", "run", "fit", "train_model", "main_loop"),
    "step": ("train_step", "update", "optimize", "training_step", "learn"),
    "helper": ("track", "after_step", "summarize", "report", "collect_stats", "bookkeeping"),
    "second_helper": ("monitor", "post_step", "digest", "snapshot", "audit", "record_state"),
    "transform": ("augment", "prepare", "preprocess", "transform", "decode", "clean"),
    "evaluate": ("evaluate", "validate", "compute_accuracy", "test"),
}


def draw(seed: int, index: int) -> Plan:
    """The program with this number."""
    rng = random.Random(f"stepscope {seed} {index}")
    faults = _draw_faults(rng)
    while True:  # until the program is one in which these faults can be
        step_ms = math.exp(rng.uniform(math.log(0.2), math.log(1000.0)))
        possible = {name: one for name, one in SHAPES.items() if step_ms >= one[1]}
        shape = rng.choices(list(possible), [weight for weight, _, _ in possible.values()])[0]
        families = {"gan": ("mlp", "cnn"), "rl": ("mlp",), "closure": ("mlp", "embedding")}
        family = rng.choice(
            families.get(shape, FAMILIES if step_ms > 1.5 else ("mlp", "embedding"))
        )
        source = _draw_source(rng, step_ms, loaded=SHAPES[shape][2])
        if all(FAULTS[fault.kind].allows(shape, family, source, step_ms) for fault in faults):
            break
    batch, width, depth = _draw_size(rng, family, source, step_ms / PASSES.get(shape, 1.0))
    per_epoch, epochs = _draw_length(rng, step_ms, faults)
    return Plan(
        seed, index, shape, family, source,
        layout=rng.choice(("module", "function", "class")),
        step_ms=step_ms, batch=batch, width=width, depth=depth,
        steps_per_epoch=per_epoch, epochs=epochs, split=rng.random() < 0.5,
        names={key: rng.choice(names) for key, names in _NAMES.items()},
        faults=faults,
    )  # fmt: skip


def _draw_source(rng: random.Random, step_ms: float, *, loaded: bool) -> str:
    """Loaders have a cost of their own, so that the shortest steps go without."""
    if not loaded or step_ms < 1.5:
        return "tensors"
    if step_ms < 10:
        return rng.choice(("tensors", "batches", "batches", "iterable"))
    return rng.choice(("tensors", "loader", "batches", "workers", "workers", "iterable"))


def _draw_size(
    rng: random.Random, family: str, source: str, step_ms: float
) -> tuple[int, int, int]:
    """Batch, width and depth for a step of this length: 0.25 ms and the arithmetic."""
    budget = max(0.02, step_ms - 0.3) * 1e6  # ns
    depth = 1 if step_ms < 1 else rng.randint(1, 2 if step_ms < 10 else 4)
    sizes = {"mlp": (32, 128, 256, 512), "embedding": (16, 64, 128, 256), "cnn": (4, 8, 16, 32),
             "transformer": (16, 32, 64, 96), "lstm": (16, 32, 64, 96)}[family]  # fmt: skip
    width = sizes[sum(step_ms > edge for edge in (1, 10, 100))]
    tokens = {"cnn": 256 * 9, "transformer": 32 * 12, "lstm": 32 * 8}.get(family, 1)
    flops_per_ns = {"mlp": 40.0, "embedding": 30.0, "lstm": 10.0}.get(family, 12.0)
    # Fetching a sample takes a loader some 6 µs, which should be little of a step.
    most = 4096.0 if source not in ("loader", "workers") else max(16.0, 5 * step_ms)
    while True:
        flops = 6 * tokens * (16 * width + depth * width * width)
        batch = budget * flops_per_ns / flops
        if batch <= most or width >= 1024:
            return int(max(4.0, min(most, batch))), width, depth
        width *= 2


def _draw_faults(rng: random.Random) -> tuple[Fault, ...]:
    count = rng.choices((0, 1, 2), (25, 60, 15))[0]
    possible = dict(FAULTS)
    faults: list[Fault] = []
    while len(faults) < count:
        kind = rng.choices(list(possible), [rule.weight for rule in possible.values()])[0]
        gain = 1 + math.exp(rng.uniform(math.log(0.12), math.log(3.0)))
        faults.append(Fault(kind, rng.choice(possible[kind].variants), gain))
        # Two faults of a program are of two mechanisms: not both of input, none twice.
        group = "input" if kind.startswith("input") else kind
        possible = {k: rule for k, rule in possible.items() if not k.startswith(group)}
    return tuple(faults)


def _draw_length(rng: random.Random, step_ms: float, faults: tuple[Fault, ...]) -> tuple[int, int]:
    """Steps of an epoch, and epochs: the loop lasts about RUN_MS with its faults."""
    whole = step_ms * (1 + sum(fault.gain - 1 for fault in faults))
    steps = int(max(LEAST_STEPS, min(MOST_STEPS, RUN_MS / whole)))
    epochs = rng.randint(3, 5)
    for fault in faults:
        if fault.kind == "input-worker-startup":
            per_epoch = max(2, math.ceil(START_WORKERS_MS / (step_ms * (fault.gain - 1))))
            epochs = max(3, min(40, steps // per_epoch))
            return per_epoch, epochs
    return max(4, steps // epochs) // 4 * 4, epochs
