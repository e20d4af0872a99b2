"""The native sampler against a program that does everything to pull the memory from under it."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.conftest import native_core

SECONDS = 5.0


def churn_code(number: int) -> None:
    """Code objects that are made, run once and freed, now and then with large bodies."""
    body = "\n".join(f"x{i} = {i} + {number}" for i in range(3 + number % 40))
    namespace: dict[str, Any] = {}
    exec(compile(f"def f():\n    def g(): return sum(range(20))\n    return g()\n{body}\nf()",
                 f"made_{number}.py", "exec"), namespace)  # fmt: skip


def dig(depth: int) -> int:
    return dig(depth - 1) + 1 if depth else 0


def chain_generators(depth: int) -> Iterator[int]:
    if depth:
        yield from chain_generators(depth - 1)
    yield depth


async def hop(depth: int) -> None:
    if depth:
        await asyncio.gather(hop(depth - 1), asyncio.sleep(0))


def calls_much(count: int) -> int:
    return sum(f(i) for i, f in enumerate([abs, int, float, bool] * count))  # type: ignore[operator]


def in_short_threads(number: int) -> None:
    threads = [threading.Thread(target=dig, args=(number % 300,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_forked_child(core: Any, number: int) -> None:
    """Forks while it is sampled; the child samples itself, forks once more, and ends one way or
    another, in the middle of it."""
    pid = os.fork()
    if pid == 0:
        try:
            live_and_die(core, number)
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        raise AssertionError(f"a forked child ended with {code}")


def live_and_die(core: Any, number: int) -> None:
    core.after_fork()
    sampler = core.StackSampler(core.intern("stack"))
    sampler.start(50_000)
    if number % 5 == 0:
        grandchild = os.fork()
        if grandchild == 0:
            core.after_fork()
            core.StackSampler(core.intern("stack")).start(50_000)
            dig(200)
            os._exit(0)
        os.waitpid(grandchild, 0)
    for one in (churn_code, lambda count: dig(count % 500), in_short_threads):
        one(number)
    if number % 3 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 3 == 1:
        sampler.stop()
        sampler.resolve()
        core.drain()
    os._exit(0)


def in_greenlets(number: int) -> None:
    """Stacks that are swapped under the feet of whoever looks, where greenlet is installed."""
    try:
        greenlet: Any = importlib.import_module("greenlet").greenlet
    except ImportError:
        return
    here = greenlet.getcurrent()
    others = [greenlet(lambda: (dig(number % 200), here.switch(), dig(30))) for _ in range(5)]
    for other in others + others:
        other.switch()


def works() -> list[Callable[[int], object]]:
    return [
        churn_code,
        lambda number: dig(number % 900),
        lambda number: sum(chain_generators(number % 30)),
        lambda _: asyncio.run(hop(4)),
        lambda _: calls_much(50),
        in_short_threads,
        in_greenlets,
        lambda _: gc.collect(),
    ]


@contextmanager
def open_spans(core: Any) -> Iterator[None]:
    """A thread that opens and closes spans all the time, and is asked which one is open."""
    done = threading.Event()
    names = [core.intern(name) for name in ("outer", "inner")]

    def spans() -> None:
        while not done.is_set():
            with core.span(names[0]), core.span(names[1]):
                pass

    thread = threading.Thread(target=spans)
    thread.start()
    yield
    done.set()
    thread.join()


def torture(core: Any, seconds: float) -> dict[str, int]:
    """Runs it all in several threads while it is sampled; the counters at its end."""
    sampler = core.StackSampler(core.intern("stack"))
    sampler.start(100_000)
    told = []

    def resolve() -> None:
        while sampler.wait():
            told.append(len(sampler.resolve()))
            core.drain()

    end = time.monotonic() + seconds

    def work(todo: list[Callable[[int], object]]) -> None:
        number = 0
        while time.monotonic() < end:
            for one in todo:
                one(number)
            number += 1

    threads = [
        threading.Thread(target=resolve),
        threading.Thread(target=work, args=([churn_code],)),
        threading.Thread(target=work, args=(works()[1:3],)),
    ]
    for thread in threads:
        thread.start()
    with open_spans(core):
        work([*works(), lambda number: in_forked_child(core, number)])
    sampler.stop()
    for thread in threads:
        thread.join()
    sampler.resolve()
    counters: dict[str, int] = sampler.counters()
    return counters | {"told": sum(told)}


@pytest.mark.slow
@pytest.mark.not_under("tsan", reason="it cannot start threads in a forked child")
def test_nothing_that_threads_frames_and_code_objects_do_crashes_it() -> None:
    native_core()
    program = (
        "from stepscope.record import _native\n"
        "from tests.contract.test_sampler_stress import torture\n"
        f"print(torture(_native, {SECONDS}))"
    )
    # Python 3.12 on warns of a fork beside threads, which is what this is about.
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore::DeprecationWarning"]
    command += ["-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    counters: dict[str, int] = eval(ended.stdout)
    assert counters["taken"] > 1000
    assert counters["told"] > 1000
    assert counters["torn"] < counters["taken"] / 10
