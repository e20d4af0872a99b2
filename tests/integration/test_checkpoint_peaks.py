"""By how much checkpoints lower the peak is what the summary says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from stepscope.record.core import core
from tests.integration.inside import environment
from tests.integration.joined import SCRIPTS

pytestmark = pytest.mark.skipif(
    core.TensorHeap is None, reason="this core cannot see tensors: it is not the native one"
)


@pytest.fixture(scope="module")
def told() -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "plans" / "peaks.py")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("model", ["transformer", "cnn", "lstm", "nested", "shared"])
def test_the_peak_really_falls_and_by_what_the_summary_says(told: Any, model: str) -> None:
    found = told[model]
    fall_bytes = found["without"] - found["with"]

    assert fall_bytes > 0.3 * found["without"]
    assert found["said"] == pytest.approx(fall_bytes, rel=0.02)
