"""Functions that are told of alerts: who is slow, fails or hangs holds up nobody else."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from stepscope.model.alert import Alert, AlertState
from stepscope.model.finding import Finding
from stepscope.session import callbacks as callbacks_module
from stepscope.session.callbacks import Callbacks

PATIENCE_S = 30.0


def alert(number: int = 0) -> Alert:
    finding = Finding("threshold", f"it is {number}", 0.0, 0.9, 1.0)
    return Alert(str(number), "threshold", finding, AlertState.FIRING, "run", "host", 1.0, 2.0)


@pytest.fixture
def errors() -> list[str]:
    return []


@pytest.fixture
def callbacks(errors: list[str]) -> Callbacks:
    return Callbacks(lambda where, error: errors.append(f"{where}: {error}"))


def until(is_true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.002)


def test_plain_and_async_functions_are_told_in_order_and_off_this_thread(
    callbacks: Callbacks,
) -> None:
    plain: list[tuple[str, int]] = []
    later: list[tuple[str, int]] = []

    async def tell_later(one: Alert) -> None:
        await asyncio.sleep(0.001)
        later.append((one.id, threading.get_ident()))

    callbacks.add(lambda one: plain.append((one.id, threading.get_ident())))
    callbacks.add(tell_later)
    for number in range(20):
        callbacks.tell(alert(number))

    assert callbacks.wait(PATIENCE_S)
    for told in (plain, later):
        assert [number for number, _ in told] == [str(number) for number in range(20)]
        assert threading.get_ident() not in {thread for _, thread in told}


def test_an_async_function_keeps_its_loop_from_one_alert_to_the_next(callbacks: Callbacks) -> None:
    loops = []

    async def tell(one: Alert) -> None:
        loops.append(asyncio.get_running_loop())

    callbacks.add(tell)
    for _ in range(2):
        callbacks.tell(alert())
        assert callbacks.wait(PATIENCE_S)
    assert loops[0] is loops[1]


def test_what_an_async_function_leaves_behind_is_finished(callbacks: Callbacks) -> None:
    done = threading.Event()
    tasks = []

    async def tell(one: Alert) -> None:
        async def after() -> None:
            await asyncio.sleep(0.01)
            done.set()

        tasks.append(asyncio.get_running_loop().create_task(after()))

    callbacks.add(tell)
    callbacks.tell(alert())
    assert done.wait(PATIENCE_S)


def test_a_lambda_around_an_async_function_is_awaited(callbacks: Callbacks) -> None:
    told = []

    async def tell(one: Alert) -> None:
        told.append(one.id)

    callbacks.add(lambda one: tell(one))  # noqa: PLW0108 - it is no async function itself
    callbacks.tell(alert(7))
    assert callbacks.wait(PATIENCE_S)
    assert told == ["7"]


def test_an_error_is_counted_and_stops_neither_the_others_nor_the_next(
    callbacks: Callbacks, errors: list[str]
) -> None:
    told = []

    def fails(one: Alert) -> None:
        raise ValueError("no")

    async def fails_too(one: Alert) -> None:
        raise SystemExit(3)

    callbacks.add(fails)
    callbacks.add(fails_too)
    callbacks.add(lambda one: told.append(one.id))
    callbacks.tell(alert(1))
    callbacks.tell(alert(2))

    assert callbacks.wait(PATIENCE_S)
    assert told == ["1", "2"]
    assert callbacks.errors == len(errors) == 4
    assert any("fails" in one and "no" in one for one in errors)


def test_one_that_hangs_holds_up_nobody_and_its_alerts_are_bounded(
    callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks_module, "_MOST_WAITING", 3)
    go_on, told = threading.Event(), []

    async def waits_for_ever(one: Alert) -> None:
        while not go_on.is_set():
            await asyncio.sleep(0.001)

    async def tell(one: Alert) -> None:
        told.append(one.id)

    callbacks.add(lambda one: go_on.wait(PATIENCE_S))
    callbacks.add(waits_for_ever)
    callbacks.add(tell)
    for number in range(6):
        callbacks.tell(alert(number))
        until(lambda: len(told) == number + 1)  # noqa: B023 - it is over before the next

    assert not callbacks.wait(0.01)
    assert callbacks.untold == 4, "of each of the two one is told, and three wait"
    go_on.set()
    assert callbacks.wait(PATIENCE_S)


def test_where_no_thread_can_be_started_the_next_alert_tries_again(
    callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, later = [], []

    async def tell(one: Alert) -> None:
        later.append(one.id)

    callbacks.add(lambda one: plain.append(one.id))
    callbacks.add(tell)
    with monkeypatch.context() as without_threads:
        without_threads.setattr(callbacks_module, "_started", lambda work: None)
        callbacks.tell(alert(1))
    assert callbacks.untold == 2
    assert callbacks.wait(0.0), "nobody is at work"
    callbacks.tell(alert(2))
    assert callbacks.wait(PATIENCE_S)
    assert plain == later == ["1", "2"]


def test_one_that_was_removed_is_told_no_more(callbacks: Callbacks) -> None:
    told: list[Alert] = []
    callbacks.add(told.append)
    assert callbacks.remove(told.append)
    assert not callbacks.remove(told.append)
    callbacks.tell(alert())
    assert callbacks.wait(PATIENCE_S)
    assert told == []


def test_when_all_is_told_no_thread_is_left(callbacks: Callbacks) -> None:
    async def tell(one: Alert) -> None:
        """Nothing."""

    callbacks.add(tell)
    callbacks.add(lambda one: None)
    callbacks.tell(alert())
    until(lambda: "stepscope-alerts" not in {thread.name for thread in threading.enumerate()})


def test_a_forked_child_tells_its_own_and_the_parent_goes_on(callbacks: Callbacks) -> None:
    told: list[Alert] = []

    async def tell(one: Alert) -> None:
        await asyncio.sleep(0)
        told.append(one)

    callbacks.add(tell)
    callbacks.tell(alert(1))
    assert callbacks.wait(PATIENCE_S)
    child = os.fork()
    if child == 0:
        callbacks.after_fork()
        gc.collect()
        callbacks.tell(alert(2))
        os._exit(0 if callbacks.wait(PATIENCE_S) and [one.id for one in told] == ["1", "2"] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    callbacks.tell(alert(3))
    assert callbacks.wait(PATIENCE_S)
    assert [one.id for one in told] == ["1", "3"]


HANGS = """
import asyncio, threading, time
from tests.unit.session.test_callbacks import Callbacks, alert
async def for_ever(one):
    started.set()
    await asyncio.sleep(3600)
def for_ever_too(one):
    started_too.set()
    time.sleep(3600)
started, started_too = threading.Event(), threading.Event()
callbacks = Callbacks(lambda where, error: None)
callbacks.add(for_ever)
callbacks.add(for_ever_too)
callbacks.tell(alert())
started.wait()
started_too.wait()
print("over")
"""


def test_a_program_ends_quietly_whatever_its_functions_are_doing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")
