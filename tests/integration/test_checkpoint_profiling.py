"""Checkpoints of torch and of a manager, as profiler, monitor and recommender see them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.inside import environment

SCRIPT = Path(__file__).parent / "scripts" / "profiles_checkpoints.py"
STEPS, BLOCKS, BATCH, WIDTH = 3, 6, 256, 128


@pytest.fixture(scope="module")
def told() -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_end_to_end_every_checkpoint_is_profiled(told: Any) -> None:
    found = told["end_to_end"]
    layers = {one["layer_id"]: one for one in found["layer_profiles"]}
    assert list(layers) == [f"blocks.{at}" for at in range(BLOCKS)]
    for one in layers.values():
        assert one["checkpoint_count"] == one["recompute_count"] == STEPS
        assert one["deallocation_count"] == STEPS
        assert 0 < one["total_recompute_time_ms"] <= found["total_recompute_time"]
    assert found["total_events"] == 3 * BLOCKS * STEPS
    assert found["memory_in_use_bytes"] == 0
    # gelu's input and result, which is the input of the second product: float32
    assert layers["blocks.2"]["total_memory_saved"] == STEPS * BATCH * 2 * 2048 * 4
    assert "Total Events: 54\n" in told["report"]


def test_end_to_end_events_come_in_the_order_of_the_step(told: Any) -> None:
    events = told["events"]
    assert events[:BLOCKS] == [["checkpoint", f"blocks.{at}"] for at in range(BLOCKS)]
    recomputed = [layer for kind, layer in events if kind == "recompute"]
    assert recomputed == [f"blocks.{at}" for at in reversed(range(BLOCKS))]


def test_end_to_end_the_peak_falls_by_what_the_summary_says(told: Any) -> None:
    assert told["saved_bytes"] > 2_000_000
    said = told["end_to_end"]["peak_reduction_bytes"]
    assert said == pytest.approx(told["saved_bytes"], rel=0.02)
    assert said <= told["end_to_end"]["peak_memory_saved_bytes"]


def test_monitoring_with_real_events(told: Any) -> None:
    """A threshold as large as what is held, then one byte less; each before and after backward."""
    assert told["exceeded"] == ["long", told["kept"], "long", "long"]
    assert (told["in_use_by_hand"], told["in_use"]) == (4000, 0)


def test_recommendations_from_actual_profiling_data(told: Any) -> None:
    """Most of the time goes into a block that saves nothing."""
    first, *others = told["advised"]
    assert first == ["adjust_checkpoint_strategy", "blocks.5"]
    assert "adjust_checkpoint_strategy" not in dict(others)


def test_a_profiler_of_checkpoints_puts_no_hooks_on_modules(told: Any) -> None:
    assert told["hooked"] == [False, True], "only when another profiler wants them"
