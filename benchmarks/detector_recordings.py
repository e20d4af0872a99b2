"""Step times and memory of real runs: of small ones that are made here, and of others' on GPUs."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from detector_series import STEPS, StepSeries
from stepscope.interop.memory_timeline import timeline_of

PROGRAM = Path(__file__).parent / "programs" / "recorded_steps.py"
TRACES = Path(__file__).parents[2] / "shared" / "traces"
_TIMEOUT_S = 300
_MICROBATCHES = 4  # of a step of the recorded job
_FIRST_STEP = (
    100  # of those recorded of that job, five are earlier: it really became 6 % slower then
)


class Row(NamedTuple):
    time_s: float
    step_s: float
    witness_s: float
    resident_bytes: int


def record(model: str, steps: int, memory: str = "flat") -> list[Row]:
    """A real training run, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        command = [sys.executable, str(PROGRAM), str(out), "--model", model]
        command += ["--steps", str(steps), "--memory", memory]
        subprocess.run(command, check=True, timeout=_TIMEOUT_S)
        return [Row(*row) for row in json.loads(out.read_text())]


def recorded_here(steps: int, rounds: int) -> list[StepSeries]:
    """Each model so many times."""
    found = []
    for _ in range(rounds):
        for model in ("mlp", "cnn", "transformer"):
            rows = record(model, steps)
            found.append(
                StepSeries(
                    f"here, {model}",
                    [row.step_s for row in rows],
                    is_recorded=True,
                    witness=[row.witness_s for row in rows],
                )
            )
    return found


def recorded_on_gpus(seed: int) -> list[StepSeries]:
    """Forward and backward passes of the micro-batches of a pipeline job on GPUs, rank by rank: 108
    each, as they were, and 1,000, drawn again from its steps (those of one step stay together).
    [] where the recordings are not here."""
    path = TRACES / "straggler-stage.parquet"
    if not path.is_file():
        return []
    rng = random.Random(seed)
    found = []
    for kind, steps in _passes(path):
        short = [value for step in steps for value in step]
        found.append(StepSeries(f"GPU, {kind}", short, is_recorded=True))
        draws = (rng.choice(steps) for _ in range(STEPS // _MICROBATCHES))
        longer = [value for step in draws for value in step]
        found.append(StepSeries(f"GPU drawn again, {kind}", longer, is_recorded=True))
    return found


def _passes(path: Path) -> Iterator[tuple[str, list[list[float]]]]:
    import pyarrow.parquet

    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    rows.sort(key=lambda row: (row["step"], row["start_ts"]))
    for kind in ("forward-compute", "backward-compute"):
        for rank in sorted({row["rank"] for row in rows}):
            by_step: dict[int, list[float]] = {}
            for row in rows:
                if (row["optype"], row["rank"]) == (kind, rank) and row["step"] >= _FIRST_STEP:
                    by_step.setdefault(row["step"], []).append(row["duration"])
            yield kind.removesuffix("-compute"), list(by_step.values())


def gpu_memory_timeline() -> list[float]:
    """Bytes held on a GPU after each allocation and release of a few real steps; [] where the
    recording is not here."""
    path = TRACES / "memory-timeline.raw.gz"
    if not path.is_file():
        return []
    held, found = 0, []
    for change in timeline_of(json.loads(gzip.decompress(path.read_bytes()))).changes:
        held += change.bytes
        found.append(float(held))
    return found
