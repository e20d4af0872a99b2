"""`stepscope run --level …`: layers, operators and traits of a program that was not edited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.layers import LayerFold, LayersFound
from stepscope.analyze.loop import Loop
from stepscope.model import traits
from stepscope.model.phases import Phase
from stepscope.store.trace import open_trace
from tests.integration.joined import SCRIPTS, SOURCE, environment, run_bare

pytestmark = pytest.mark.extended
STEPS = "190"  # some 4 s


def run(folder: Path, level: str) -> tuple[str, str]:
    command = [sys.executable, "-m", "stepscope", "run", "-q", "--level", level, "-o", str(folder)]
    done = subprocess.run(
        [*command, str(SCRIPTS / "slow_layer.py"), STEPS],
        env=environment(PYTHONPATH=str(SOURCE)), capture_output=True, text=True, timeout=120,
        check=True,
    )  # fmt: skip
    return done.stdout, done.stderr


def folded(folder: Path) -> tuple[LayersFound, Loop]:
    trace = open_trace(folder)
    fold = LayerFold()
    loops = []
    for process in trace.processes:
        if process.role == "program":
            loop = LoopFold(process.rank, process.pid, process.monotonic_ns)
            for batch in trace.batches(process):
                fold.update(process, batch)
                loop.update(batch)
            loops.append(loop.get())
    found = [loop for loop in loops if loop is not None]
    return fold.get(found), found[0]


@pytest.fixture(scope="module")
def bare() -> str:
    return run_bare([["slow_layer.py", STEPS]])[0]


def test_detailed_tells_layers_operators_and_traits(tmp_path: Path, bare: str) -> None:
    stdout, stderr = run(tmp_path / "run", "detailed")
    found, loop = folded(tmp_path / "run")

    assert stdout == bare, "the same losses, to the bit"
    assert stderr == ""
    layers = {layer.path: layer for layer in found.layers}
    assert set(layers) == {"", "body", "body.0", "body.1", "body.1.linear", "body.2", "head"}
    assert 20 <= layers["body.1"].self_forward_ms < 30
    assert all(layer.backward_ms is not None for layer in found.layers)
    assert 8 <= found.layer_steps < 60
    assert found.slowdown is not None
    assert 0.8 < found.slowdown < 1.5
    assert found.op_steps == 3
    assert {"aten::addmm", "aten::mm"} <= {op.name for op in found.ops}
    assert found.traits[traits.OPS_PER_STEP]["ops"] > 10
    assert found.traits[traits.ITEM_CALLS] == 1
    assert found.traits[traits.OPTIMIZERS][0]["class"] == "AdamW"
    told_ns = sum(time.wall_ns for time in loop.phases.values())
    assert told_ns == pytest.approx(loop.wall_ns, rel=0.01)
    assert loop.share(Phase.UNEXPLAINED) < 0.01


def test_basic_samples_a_handful_and_production_nothing(tmp_path: Path, bare: str) -> None:
    assert run(tmp_path / "basic", "basic") == (bare, "")
    basic, _ = folded(tmp_path / "basic")
    assert run(tmp_path / "production", "production") == (bare, "")
    production, _ = folded(tmp_path / "production")

    assert 3 <= basic.layer_steps <= 12
    assert basic.ops == ()
    assert not production.layers
    assert not production.ops
    assert production.traits[traits.DTYPES] == {"float32": 1.0}
