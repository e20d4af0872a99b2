"""A MemoryProfiler below `stepscope run`: its events are part of the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stepscope import open_trace
from stepscope.model import names

SCRIPT = Path(__file__).parent / "scripts" / "tracks_memory.py"


def test_all_events_are_found_in_the_program_and_in_the_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", sys.executable, str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
        cwd=tmp_path,
    )
    assert "events 240000 dropped 0" in done.stdout
    assert "steps 7" in done.stdout
    assert "last 0 18" in done.stdout
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    trace = open_trace(run)
    assert not trace.losses
    counted = trace.sql("SELECT name, count(*) AS n FROM allocations GROUP BY name").to_pydict()
    by_name = dict(zip(counted["name"], counted["n"], strict=True))
    assert by_name[names.TRACKED_ALLOC] == by_name[names.TRACKED_FREE] == 120_000
    frames = trace.sql(f"SELECT text FROM marks WHERE name = '{names.TRACKED_FRAME}'").to_pydict()
    assert any(text.endswith(str(SCRIPT)) for text in frames["text"])
