from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from stepscope.notify import worker as worker_module
from stepscope.notify.worker import Worker

PATIENCE_S = 60.0

# What is registered first is called last: it sees what the fork will see.
_FORKING = """
import os, threading, time
os.register_at_fork(before=lambda: seen.append(threading.active_count()))
from stepscope.notify.worker import Worker
seen, calls = [], []

def work(stop):
    calls.append(1)
    return 600.0

worker = Worker(work, lambda: None, "w")
worker.wake()
while not calls:
    time.sleep(0.001)
assert threading.active_count() == 2
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert threading.active_count() == 2
print(seen, calls)
"""


def test_at_a_fork_there_is_no_thread_and_a_pause_is_not_cut_short_by_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKING], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("[1, 1, 1] [1]\n", "")


def test_it_ends_when_there_is_nothing_to_do_and_begins_again_when_there_is() -> None:
    calls: list[str] = []
    worker = Worker(lambda stop: calls.append("work"), lambda: calls.append("end"), "test")
    worker.wake()
    _wait(lambda: calls == ["work"])
    assert worker.join(PATIENCE_S)
    worker.wake()
    _wait(lambda: calls == ["work"] * 2)
    worker.finish()
    assert worker.join(PATIENCE_S)
    assert calls == ["work", "work", "work", "end"]
    worker.wake()
    assert worker.join(PATIENCE_S)
    assert len(calls) == 4  # over is over


def test_the_end_does_not_wait_for_a_pause() -> None:
    calls: list[str] = []

    def work(stop: Callable[[], bool]) -> float:
        calls.append("work")
        return 600.0

    worker = Worker(work, lambda: calls.append("end"), "test")
    worker.wake()
    _wait(lambda: bool(calls))
    worker.wake()  # news does not shorten it
    worker.finish()
    assert worker.join(PATIENCE_S)
    assert calls == ["work", "work", "end"]


def test_a_fault_is_a_pause_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker_module, "_FAULT_PAUSE_S", 0.001)
    calls: list[str] = []

    def work(stop: Callable[[], bool]) -> None:
        calls.append("work")
        if len(calls) < 3:
            raise TypeError("unforeseen")

    worker = Worker(work, lambda: calls.append("end"), "test")
    worker.wake()
    _wait(lambda: len(calls) == 3)
    worker.finish()
    assert worker.join(PATIENCE_S)
    assert calls == ["work"] * 4 + ["end"]
    assert capsys.readouterr().err == ""


def test_a_fault_in_the_last_piece_of_work_is_the_end_all_the_same() -> None:
    calls: list[str] = []

    def fail(what: str) -> None:
        calls.append(what)
        raise ValueError(what)

    worker = Worker(lambda stop: fail("work"), lambda: fail("end"), "test")
    worker.finish()
    assert worker.join(PATIENCE_S)
    assert calls == ["work", "end"]


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)
