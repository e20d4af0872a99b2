"""The native sampler as an instrument: what it says against what a clock in the program says."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.conftest import native_core
from tests.contract.frames_reader import decode

INTERVAL_NS = 500_000
# Four standard deviations of a share from 4,000 samples, and something for samples that come late.
TOLERANCE = 0.05


@pytest.fixture
def native() -> Iterator[Any]:
    core = native_core()
    core.close()
    core.drain()
    core.close()  # from here on it tells its names anew
    yield core
    core.drain()


class Clocked:
    """Lines that measure themselves: {line: ns}."""

    def __init__(self) -> None:
        self.spent_ns: dict[int, int] = {}

    def add(self, line: int, ns: int) -> None:
        self.spent_ns[line] = self.spent_ns.get(line, 0) + ns

    def shares(self) -> dict[int, float]:
        total_ns = sum(self.spent_ns.values())
        return {line: ns / total_ns for line, ns in self.spent_ns.items()}


def sampled_shares(core: Any, sampler: Any, function: Any, first: int) -> dict[int, float]:
    """Shares of the lines of a function from `first` on, of what lies below it included."""
    nodes = {number: rest for number, *rest in sampler.resolve()}
    spent: dict[int, float] = {}
    for row in decode(core.drain()).named("stack"):
        number = row["arg"]
        while number:
            number, _, name, line = nodes[number]
            if name == function.__qualname__:
                spent[line] = spent.get(line, 0.0) + row["value"]
                break
    total = sum(value for line, value in spent.items() if line >= first)
    return {line: value / total for line, value in spent.items() if line >= first}


@contextmanager
def sampling(core: Any) -> Iterator[Any]:
    sampler = core.StackSampler(core.intern("stack"))
    sampler.start(INTERVAL_NS, [threading.get_native_id()])
    yield sampler
    sampler.stop()


def burn(cpu_ns: int) -> None:
    end = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < end:
        pass


def two_lines(clocked: Clocked, first: int) -> None:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        at = [time.perf_counter_ns()]
        burn(700_000)
        at.append(time.perf_counter_ns())
        burn(300_000)
        at.append(time.perf_counter_ns())
        clocked.add(first, at[1] - at[0])
        clocked.add(first + 2, at[2] - at[1])


def compare(clocked: Clocked, sampled: dict[int, float]) -> None:
    for line, share in clocked.shares().items():
        assert sampled.get(line, 0.0) == pytest.approx(share, abs=TOLERANCE), (line, sampled)


@pytest.mark.slow
def test_two_lines_that_burn_70_to_30_come_back_as_such(native: Any) -> None:
    clocked, first = Clocked(), two_lines.__code__.co_firstlineno + 4
    with sampling(native) as sampler:
        two_lines(clocked, first)
    assert clocked.shares()[first] == pytest.approx(0.7, abs=0.05)
    compare(clocked, sampled_shares(native, sampler, two_lines, first))


NUMBERS = list(range(100_000))
BYTES = bytes(range(256)) * 400


def many_kinds(clocked: Clocked, first: int) -> None:
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        at = [time.perf_counter_ns()]
        sum(number * number for number in range(20_000))
        at.append(time.perf_counter_ns())
        sum(NUMBERS)  # holds the GIL all along
        at.append(time.perf_counter_ns())
        zlib.compress(BYTES)  # lets go of it
        at.append(time.perf_counter_ns())
        time.sleep(0.001)
        at.append(time.perf_counter_ns())
        for i in range(4):
            clocked.add(first + 2 * i, at[i + 1] - at[i])


@pytest.mark.slow
@pytest.mark.parametrize("rivals", [0, 1], ids=["alone", "beside a thread that wants the GIL"])
def test_python_c_and_sleep_each_get_their_time_whoever_holds_the_gil(
    native: Any, rivals: int
) -> None:
    clocked, first = Clocked(), many_kinds.__code__.co_firstlineno + 4
    done = threading.Event()

    def want_the_gil() -> None:
        while not done.is_set():
            sum(NUMBERS)

    threads = [threading.Thread(target=want_the_gil) for _ in range(rivals)]
    for thread in threads:
        thread.start()
    with sampling(native) as sampler:
        many_kinds(clocked, first)
    done.set()
    for thread in threads:
        thread.join()
    compare(clocked, sampled_shares(native, sampler, many_kinds, first))
    assert sampler.counters()["torn"] <= sampler.counters()["taken"] / 100
