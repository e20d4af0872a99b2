"""`stepscope capture` on programs that run: from another process, without an edit or a restart."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.store.captures import capture_path
from stepscope.store.rundir import read_meta
from stepscope.store.status import read_status_pages
from tests.integration.joined import SCRIPTS, SOURCE, environment

pytestmark = pytest.mark.extended

PATIENCE_S = 120.0
SCRIPT = SCRIPTS / "until_told.py"


class Running:
    """A program below `stepscope run` that trains until it is told to stop."""

    def __init__(self, folder: Path, mode: str, level: str) -> None:
        self.run, self.stop = folder / "run", folder / "stop"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stepscope", "run", "-q", "--level", level,
             "-o", str(self.run), str(SCRIPT), str(self.stop), mode],
            env=environment(PYTHONPATH=str(SOURCE)), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_for_steps(self, count: int) -> int:
        """The id of the process that trains."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            folder = read_meta(self.run).get("status_folder") if self.run.is_dir() else None
            for page in read_status_pages(Path(folder)) if folder else []:
                if page.step >= count:
                    return page.pid
            time.sleep(0.05)
        raise AssertionError("it makes no steps")

    def capture(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stepscope", "capture", *words],
            env=environment(PYTHONPATH=str(SOURCE)), capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def end(self) -> tuple[str, str]:
        self.stop.touch()
        stdout, stderr = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0
        return stdout, stderr

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, "train", "production")
    yield made
    made.kill()


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, "stall", "production")
    yield made
    made.kill()


def captured(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line)


def test_a_running_program_is_looked_at_closely_and_goes_on_as_before(training: Running) -> None:
    pid = training.wait_for_steps(30)
    found = captured(training.capture(str(pid), "--json", "--operators", "--memory", "--for", "1m"))
    assert (found["steps"], found["ranks"], found["notes"]) == (20, [0], [])
    assert found["summary"]["steps"]["count"] == 20
    lines = [line for one in found["stacks"] for line in one["lines"]]
    places = {(line["location"]["file"], line["location"]["line"]) for line in lines}
    assert (str(SCRIPT), line_of("while time.process_time() < spent")) in places
    assert found["op_steps"] == 3
    assert {"aten::addmm", "aten::mm"} <= {op["name"] for op in found["ops"]}
    assert {layer["path"] for layer in found["layers"]} == {"", "0", "1", "2"}
    (grows,) = (one for one in found["memory"] if one["location"]["function"] == "prepare")
    assert grows["location"]["line"] == line_of("return torch.ones")
    assert grows["bytes_per_step"] == 16 * 64 * 4

    text = training.capture(str(training.run), "--steps", "5", "--for", "1m")
    assert text.returncode == 0
    assert "5 steps in" in text.stdout
    assert text.stdout.splitlines()[-1].endswith("captures/2.json")

    assert [n for n in range(9) if (training.run / capture_path(n)).exists()] == [1, 2]
    stdout, stderr = training.end()
    assert (stdout, stderr) == ("1\n", ""), "the same result in every step, and not a word"
    over = training.capture(str(training.run))
    assert (over.returncode, over.stdout) == (2, "")
    assert "is over" in over.stderr


def test_a_program_that_stands_still_says_where(stalled: Running) -> None:
    stalled.wait_for_steps(10)
    found = captured(stalled.capture(str(stalled.run), "--json", "--for", "1s"))
    assert found["steps"] == 0
    assert found["location"]["line"] == line_of("time.sleep(0.02)")
    assert found["title"].startswith("No step ended: it stands in python between")
    assert stalled.end()[0] == "1\n"
