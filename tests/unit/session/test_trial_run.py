"""Runs of programs that need no torch: what ends them, and what is left of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stepscope.model.trial import Outcome
from stepscope.session.trial import TRIAL_ENDED
from stepscope.session.trial_run import OUTPUT_FILE, Ended, Limits, run_program

PLENTY = Limits(seconds=60.0, memory_bytes=1 << 40)


def run(folder: Path, code: str, limits: Limits = PLENTY) -> Ended:
    return run_program([sys.executable, "-c", code], os.environ, folder, limits)


def test_what_it_prints_goes_into_a_file(tmp_path: Path) -> None:
    ended = run(tmp_path, "print('hello')")
    assert ended.outcome is Outcome.MEASURED
    assert (tmp_path / OUTPUT_FILE).read_text() == "hello\n"


def test_a_crash_is_told_by_its_last_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "raise ValueError('no such layer')")
    assert (ended.outcome, ended.why) == (Outcome.CRASHED, "ValueError: no such layer")


def test_memory_that_is_refused_is_told_as_such(tmp_path: Path) -> None:
    assert run(tmp_path, "raise MemoryError").outcome is Outcome.OUT_OF_MEMORY


def test_one_that_does_not_end_is_ended(tmp_path: Path) -> None:
    ended = run(tmp_path, "import time; time.sleep(600)", Limits(0.3, 1 << 40))
    assert ended.outcome is Outcome.HUNG


def test_one_that_holds_too_much_is_ended(tmp_path: Path) -> None:
    code = "x = bytearray(300 << 20); import time; time.sleep(600)"
    ended = run(tmp_path, code, Limits(120.0, 200 << 20))
    assert ended.outcome is Outcome.TOO_MUCH_MEMORY
    assert "GiB is the limit" in ended.why
    assert ended.peak_bytes > 200 << 20


@pytest.mark.parametrize("ignores", [False, True])
def test_nothing_that_it_started_is_left(tmp_path: Path, ignores: bool) -> None:
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" if ignores else ""
    child = f"import signal, time; {stubborn} print('up', flush=True); time.sleep(600)"
    code = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid)
"""
    run(tmp_path, code)
    pid = int((tmp_path / OUTPUT_FILE).read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_ranks_that_wait_for_their_end_are_ended_and_count(tmp_path: Path) -> None:
    code = f"""
import pathlib, time
pathlib.Path({str(tmp_path)!r}, {TRIAL_ENDED!r} + '-0').touch()
time.sleep(600)
"""
    assert run(tmp_path, code).outcome is Outcome.MEASURED
