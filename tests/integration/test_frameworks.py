"""Loops that a framework runs need no edits either: real tiny models, bare and under stepscope."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts" / "frameworks"
# script → the library it needs, the steps it makes
FORMS = {
    "trainer.py": ("transformers", 20),
    "fabric.py": ("lightning", 24),
    "accelerated.py": ("accelerate", 12),
}
WAIT_S = 0.005  # for each of the eight samples of a batch: most of a step
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}

pytestmark = [pytest.mark.slow, pytest.mark.extended]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )


@pytest.fixture(scope="module", params=FORMS)
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, str, dict[str, Any]]:
    """The script, what it printed bare and under the command, and its summary."""
    script = str(request.param)
    pytest.importorskip(FORMS[script][0])
    folder = tmp_path_factory.mktemp("framework")
    arguments = (str(SCRIPTS / script), str(WAIT_S), str(folder / "out"))
    bare = run(folder, *arguments)
    seen = run(folder, "-m", "stepscope", "run", "-o", str(folder / "run"), *arguments)
    summary = json.loads((folder / "run" / "summary.json").read_text())
    return script, bare.stdout, seen.stdout, summary


def test_the_result_is_the_same_as_bare(ran: tuple[str, str, str, dict[str, Any]]) -> None:
    _, bare, seen, _ = ran
    losses = [
        [line for line in text.splitlines() if line.startswith("loss ")] for text in (bare, seen)
    ]
    assert losses[0]
    assert losses[0] == losses[1]


def test_every_step_is_found(ran: tuple[str, str, str, dict[str, Any]]) -> None:
    script, _, _, summary = ran
    assert summary["steps"]["count"] == FORMS[script][1]
    assert summary["steps"]["found_by"] == "optimizer"


def test_the_dataset_is_what_it_waits_for(ran: tuple[str, str, str, dict[str, Any]]) -> None:
    script, _, _, summary = ran
    assert summary["verdict"]["kind"].startswith("input-")
    location = summary["verdict"]["location"]
    assert location["function"].endswith("__getitem__")
    assert location["file"].endswith(script)
