"""Every process below `stepscope run` pays for `import stepscope`: it must cost next to nothing."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

import pytest

HEAVY = ("torch", "pyarrow", "duckdb", "numpy", "psutil", "rich", "typer", "pynvml")


def modules_after(statement: str) -> list[str]:
    """What a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded: list[str] = json.loads(done.stdout)
    return loaded


@pytest.mark.parametrize(
    "statement",
    [
        "import stepscope",
        "import stepscope.session",
        "import stepscope.record.core",
        "from stepscope import ProfilingLevel, StepscopeError",
        "from stepscope import CheckpointManager, RecomputationEngine",
    ],
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    loaded = {name.partition(".")[0] for name in modules_after(statement)}
    assert not loaded & set(HEAVY)


def test_import_takes_well_under_100_ms() -> None:
    # The interpreter's own start is taken off by measuring inside it.
    program = (
        "import time; began = time.perf_counter(); import stepscope\n"
        "print(time.perf_counter() - began)"
    )
    times_s = [
        float(subprocess.check_output([sys.executable, "-c", program], text=True)) for _ in range(5)
    ]
    assert statistics.median(times_s) < 0.05
