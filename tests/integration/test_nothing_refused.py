"""What our own recorder writes is never refused by our own readers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import open_trace
from stepscope.store.details import read_details
from stepscope.store.summary import read_summary

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("workers.py", ["--level", "comprehensive"]),
        ("plain.py", ["--memory", "--watch", "default"]),
        ("tracks_memory.py", []),
        ("memory/known.py", ["--memory", "--python-heap"]),
        ("scaler.py", ["--level", "detailed"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "plain",
)
def test_a_run_of_ours_loses_no_event_and_no_document(
    script: str, options: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "stepscope", "run", "--name", "r", *options]

    done = subprocess.run(
        [*command, str(SCRIPTS / script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    run = tmp_path / "runs" / "r"
    assert done.returncode == 0, done.stderr
    assert open_trace(run).losses.notes == ()
    assert read_summary(run) is not None
    assert read_details(run) is not None
