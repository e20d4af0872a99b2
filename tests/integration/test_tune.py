"""`stepscope tune` on real programs: whole commands, in a folder of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timed

SCRIPTS = Path(__file__).parent / "scripts" / "tuned"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a program and with files that trials must not touch."""
    shutil.copy(SCRIPTS / "waits.py", tmp_path)
    (tmp_path / "log.txt").write_text("of an earlier run\n")
    (tmp_path / "model.pt").write_bytes(b"of an earlier run")
    return tmp_path


def stepscope(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_")}
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *words],
        cwd=project,
        env=kept,
        capture_output=True,
        text=True,
        timeout=660,
        check=False,
    )


@pytest.mark.extended
def test_workers_are_found_proved_written_and_applied(project: Path) -> None:
    options = ("--budget", "200s", "--only", "loader", "--json", "out.json", "--diff")
    done = stepscope(project, "tune", *options, "waits.py")
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "out.json").read_text())
    assert found["kept"] == ["loader"], done.stderr
    assert found["interval"][0] > 1.0
    assert "as fast" in done.stderr
    assert (
        "+    loader = DataLoader(Slow(), batch_size=4, shuffle=True, num_workers=" in done.stdout
    )
    # Nothing of the user's was touched by any of the trials.
    assert (project / "log.txt").read_text() == "of an earlier run\n"
    assert (project / "model.pt").read_bytes() == b"of an earlier run"
    assert {one.name for one in project.iterdir()} == {
        "waits.py", "log.txt", "model.pt", "out.json", "stepscope.toml",
    }  # fmt: skip

    applied = stepscope(project, "run", "--apply", "stepscope.toml", "-o", "run", "waits.py")
    assert applied.returncode == 0, applied.stderr
    assert "applied loader: " in applied.stderr
    assert "waits.py:" in applied.stderr
    # A run is no trial: it writes where it writes.
    assert (project / "log.txt").read_text().count("\n") == 25


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(700)
def test_the_example_of_the_readme_ends_in_a_proved_gain(project: Path) -> None:
    """Its samples are augmented with random numbers of its own seed, which workers draw anew."""
    done = stepscope(project, "tune", "--json", "out.json", str(EXAMPLES / "slow_input.py"))
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "out.json").read_text())
    assert found["kept"] == ["loader"], done.stderr
    assert found["interval"][0] > 1.0


@pytest.mark.slow
@pytest.mark.extended
def test_a_file_that_is_synced_in_every_step_is_synced_later_and_holds_the_same(
    project: Path,
) -> None:
    shutil.copy(SCRIPTS / "syncs.py", project)
    options = ("--budget", "120s", "--steps", "200", "--json", "out.json")
    done = stepscope(project, "tune", *options, "--only", "logging", "syncs.py")
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "out.json").read_text())
    assert found["kept"] == ["logging"], done.stderr
    assert (project / "log.txt").read_text() == "of an earlier run\n"

    applied = stepscope(project, "run", "--apply", "stepscope.toml", "-o", "run", "syncs.py")
    assert applied.returncode == 0, applied.stderr
    with_change = (project / "log.txt").read_bytes()
    subprocess.run([sys.executable, "syncs.py"], cwd=project, check=True)
    assert (project / "log.txt").read_bytes() == with_change
    assert with_change.count(b"\n") == 400


@pytest.mark.slow
def test_what_would_be_tried_is_said_without_trying_it(project: Path) -> None:
    done = stepscope(project, "tune", "--dry-run", "--steps", "12", "waits.py")
    assert done.returncode == 0, done.stderr
    assert "loader" in done.stdout
    assert (project / "log.txt").read_text() == "of an earlier run\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tune", "--only", "magic", "waits.py"), "There is no change 'magic'"),
        (("tune", "--allow", "magic", "waits.py"), "--allow takes no 'magic'"),
        (("tune", "--budget", "soon", "waits.py"), "is no time"),
        (("tune",), "There is nothing to run"),
        (("run", "--apply", "none.toml", "waits.py"), "There is no file none.toml"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_program_starts(
    project: Path, words: tuple[str, ...], said: str
) -> None:
    done = stepscope(project, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert (project / "log.txt").read_text() == "of an earlier run\n"


@pytest.mark.slow
def test_a_program_that_fails_by_itself_is_said_to(project: Path) -> None:
    done = stepscope(project, "tune", "--budget", "60s", "waits.py", "--fail")
    assert done.returncode == 2
    assert "KeyError" in done.stderr
