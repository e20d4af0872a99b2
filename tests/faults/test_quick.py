"""The quick subset of the corpus runs, its truth holds, and its last line is for machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.model.kinds import KINDS
from tests.faults.manifest import CASES, SCRIPTS, Case

ROOT = Path(__file__).parents[2]
# Need a second device, swap space, several ranks or other programs beside them (which the generator
# has: --crowded); see docs/howto/faults.md.
NOT_HERE = {
    "transfer", "device-sync", "swap", "communication", "straggler", "compute", "busy-machine",
}  # fmt: skip


def test_every_kind_that_a_cpu_can_show_is_planted() -> None:
    planted = {kind for case in CASES for kind in case.kinds}
    # Kinds of memory have programs of their own, those of a live run come with time, and those of
    # a block belong to code without a training loop.
    elsewhere = ("memory", "live", "block")
    time_kinds = {kind.name for kind in KINDS.values() if kind.group not in elsewhere}
    assert planted == time_kinds - NOT_HERE


def test_the_corpus_is_as_large_as_was_promised() -> None:
    assert len(CASES) >= 40
    assert sum(not case.faults for case in CASES) >= 8
    assert len({case.script for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_the_places_of_the_manifest_exist(case: Case) -> None:
    for fault in case.faults:
        for place in fault.places:
            file, function = place.split(":")
            name = function.rsplit(".", 1)[-1]
            text = (SCRIPTS / file).read_text()
            assert name.startswith("<") or f"def {name}(" in text


def test_every_script_is_in_the_manifest() -> None:
    scripts = {path.stem for path in SCRIPTS.glob("*.py")} - {"planted"}
    assert scripts == {case.script for case in CASES}


@pytest.mark.slow
@pytest.mark.extended
def test_the_quick_subset_runs_and_is_scored() -> None:
    # WHEN
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--quick", "--json"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip

    # THEN every script ran, and the faults cost what a fault should
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["name"] == "faults"
    assert result["figures"]["failed"] == []
    scripts = result["figures"]["scripts"]
    assert len(scripts) == sum(case.quick for case in CASES)
    assert all(share > 0.1 for script in scripts for share in script["shares"].values())
