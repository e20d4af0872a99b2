from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import pytest

from tests.contract.conftest import CORES
from tests.contract.frames_reader import decode

# The sampler is a thread, and sees every thread of its process: those of xdist are too many.
pytestmark = [pytest.mark.threaded, pytest.mark.timed]

MS = 1_000_000
Chain = list[tuple[str, str, int]]


class Known:
    """What the numbers mean, as far as it was told."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[int, str, str, int]] = {}

    def learn(self, sampler: Any) -> None:
        for number, caller, file, function, line in sampler.resolve():
            assert number not in self.nodes  # told once
            assert caller == 0 or caller in self.nodes  # callers first
            self.nodes[number] = (caller, file, function, line)

    def chain(self, number: int) -> Chain:
        """Innermost first."""
        found = []
        while number:
            number, file, function, line = self.nodes[number]
            plain = function.removesuffix(".<generator>")
            found.append((file, plain.rsplit(".", 1)[-1], line))
        return found


@contextmanager
def sampling(core: Any, **options: Any) -> Iterator[Any]:
    sampler = core.StackSampler(core.intern("stack"))
    threads, skip = options.get("threads", ()), options.get("skip", ())
    sampler.start(options.get("interval_ns", MS), threads, skip)
    try:
        yield sampler
    finally:
        sampler.stop()


def samples(core: Any, drained: list[bytes] | None = None) -> list[dict[str, Any]]:
    """Those that are pending; `drained`: what was drained before, for names are told once."""
    before = drained if drained is not None else []
    seen = len(decode(b"".join(before)).rows)
    before.append(core.drain())
    return [row for row in decode(b"".join(before)).rows[seen:] if row["name"] == "stack"]


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(50))


def in_thread(target: Callable[[], object]) -> tuple[threading.Thread, int]:
    """A thread that runs it, and the kernel's id of it."""
    ready = threading.Event()

    def run() -> None:
        ready.set()
        target()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    assert thread.native_id is not None
    return thread, thread.native_id


def test_a_sample_names_the_stack_of_its_thread_and_the_time_it_stands_for(core: Any) -> None:
    began_ns = core.now_ns()
    with sampling(core) as sampler:
        spin(0.2)
    lasted_ns = core.now_ns() - began_ns
    known = Known()
    known.learn(sampler)
    rows = [row for row in samples(core) if row["track"] == threading.get_native_id()]
    assert len(rows) > 10
    assert all(row["type"] == 2 and began_ns < row["time_ns"] for row in rows)
    assert [row["time_ns"] for row in rows] == sorted(row["time_ns"] for row in rows)
    stood_for_ns = sum(row["value"] for row in rows)
    assert 0.7 * lasted_ns < stood_for_ns <= lasted_ns
    in_spin = [row for row in rows if "spin" in {frame[1] for frame in known.chain(row["arg"])}]
    assert sum(row["value"] for row in in_spin) > 0.8 * stood_for_ns
    chain = known.chain(in_spin[0]["arg"])
    here = "test_a_sample_names_the_stack_of_its_thread_and_the_time_it_stands_for"
    assert [name for _, name, _ in chain][:2] == ["spin", here]
    assert chain[0][0] == __file__
    first = spin.__code__.co_firstlineno
    assert all(
        line in range(first + 1, first + 4)
        for row in in_spin
        for _, name, line in known.chain(row["arg"])[:1]
        if name == "spin"
    )


def test_time_in_a_call_into_c_is_seen_at_the_line_that_calls(core: Any) -> None:
    with sampling(core) as sampler:
        time.sleep(0.1)
    known = Known()
    known.learn(sampler)
    mine = [row for row in samples(core) if row["track"] == threading.get_native_id()]
    line = test_time_in_a_call_into_c_is_seen_at_the_line_that_calls.__code__.co_firstlineno + 2
    here = [row for row in mine if known.chain(row["arg"])[0][2] == line]
    assert sum(row["value"] for row in here) > 80 * MS


def test_a_thread_that_waits_has_all_its_time_where_it_waits(core: Any) -> None:
    thread, track = in_thread(lambda: time.sleep(0.3))
    with sampling(core) as sampler:
        thread.join()
        time.sleep(0.01)
    known = Known()
    known.learn(sampler)
    rows = [row for row in samples(core) if row["track"] == track]
    waits = [row for row in rows if known.chain(row["arg"])[0][1] == "<lambda>"]
    assert 250 * MS < sum(row["value"] for row in waits) < 320 * MS
    assert all(a["time_ns"] < b["time_ns"] for a, b in itertools.pairwise(rows))
    lasted_ns = rows[-1]["time_ns"] - rows[0]["time_ns"]  # without gaps, and nothing twice
    assert sum(row["value"] for row in rows[1:]) == pytest.approx(lasted_ns, abs=3 * MS)


def test_a_sample_names_the_innermost_open_span_of_its_own_thread(core: Any) -> None:
    outer, inner, other = (core.intern(name) for name in ("outer", "inner", "other"))

    def in_span() -> None:
        with core.span(other):
            time.sleep(0.3)

    core.set_step(7)
    with sampling(core):
        thread, track = in_thread(in_span)
        spin(0.05)
        token = core.begin(outer)
        spin(0.05)
        with core.span(inner):
            spin(0.05)
            time.sleep(0.05)
        core.end(token)
        thread.join()
    rows = samples(core)
    mine = [row for row in rows if row["track"] == threading.get_native_id()]
    spans = [name for name, _ in itertools.groupby(row["text"] for row in mine)]
    assert spans == ["", "outer", "inner", ""] or spans == ["", "outer", "inner", "outer", ""]
    inside_ns = sum(row["value"] for row in mine if row["text"] == "inner")
    assert 80 * MS < inside_ns < 130 * MS
    assert {row["text"] for row in rows if row["track"] == track} - {""} == {"other"}
    assert {row["step"] for row in rows} == {7}


def test_spans_open_and_close_while_the_sampler_reads_them(core: Any) -> None:
    names = [core.intern(name) for name in ("outer", "inner")]
    outer, inner = map(core.span, names)
    drained: list[bytes] = []
    rows: list[dict[str, Any]] = []
    with sampling(core, interval_ns=MS // 10):
        while len(rows) < 100:
            for _ in range(500):
                with outer, inner:
                    pass
            rows += samples(core, drained)
    assert {row["text"] for row in rows} <= {"", "outer", "inner"}


def test_the_innermost_open_span_of_a_thread_can_be_asked_for(core: Any) -> None:
    track = threading.get_native_id()
    assert core.innermost_open(track) == 0
    with core.span(core.intern("outer")), core.span(core.intern("inner")):
        assert core.innermost_open(track) == core.intern("inner")
    assert core.innermost_open(track) == core.innermost_open(1) == 0


@pytest.mark.not_under("asan", "tsan", reason="their malloc is slow: the operator takes other time")
def test_samples_in_c_are_told_from_those_in_python(core: Any) -> None:
    def add_up(seconds: float) -> int:
        end, found = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            for number in range(2000):
                found = found + number
        return found

    def waits_in_c() -> None:
        time.sleep(0.1)

    def operator_in_c(seconds: float) -> None:
        end, text = time.monotonic() + seconds, b"x" * 30_000_000
        while time.monotonic() < end:
            text + text

    with sampling(core) as sampler:
        add_up(0.3)
        waits_in_c()
        operator_in_c(0.2)
    known = Known()
    known.learn(sampler)
    share: dict[str, float] = {}
    rows = [row for row in samples(core) if row["track"] == threading.get_native_id()]
    for name in ("add_up", "waits_in_c", "operator_in_c"):
        own = [row for row in rows if known.chain(row["arg"])[0][1] == name]
        in_c = sum(row["value"] for row in own if row["flags"] & 4)
        share[name] = in_c / sum(row["value"] for row in own)
    assert share["add_up"] < 0.2, share
    assert share["waits_in_c"] > 0.9, share
    if type(sampler).__module__ != "stepscope.record.twin_sampler":  # holds the GIL all along
        assert share["operator_in_c"] > 0.8, share


def test_intervals_are_irregular(core: Any) -> None:
    with sampling(core, interval_ns=10 * MS):  # the twin's wait for the GIL adds up to 5 ms
        spin(0.8)
    gaps = [row["value"] for row in samples(core) if row["track"] == threading.get_native_id()]
    assert len(gaps) > 30
    assert max(gaps) - min(gaps) > 5 * MS
    assert sum(min(gaps) + 2 * MS < gap < max(gaps) - 2 * MS for gap in gaps) > 3


def test_a_thread_is_first_seen_for_the_time_since_the_look_before(core: Any) -> None:
    with sampling(core, interval_ns=2 * MS):
        time.sleep(0.1)
        thread, track = in_thread(lambda: time.sleep(0.05))
        thread.join()
    rows = [row for row in samples(core) if row["track"] == track]
    assert 0 < rows[0]["value"] < 50 * MS


def test_only_the_threads_that_were_asked_for_are_seen(core: Any) -> None:
    thread, track = in_thread(lambda: time.sleep(0.15))
    with sampling(core, threads=[track]):
        time.sleep(0.1)
    thread.join()
    assert {row["track"] for row in samples(core)} == {track}


def test_threads_to_skip_are_not_seen_and_it_never_sees_itself(core: Any) -> None:
    thread, track = in_thread(lambda: time.sleep(0.15))
    with sampling(core, skip=[track]):
        time.sleep(0.1)
    thread.join()
    assert {row["track"] for row in samples(core)} == {threading.get_native_id()}


def test_generators_and_coroutines_are_walked(core: Any) -> None:
    def generate() -> Iterator[int]:
        spin(0.1)
        yield 1

    async def inner() -> None:
        next(generate())

    async def outer() -> None:
        await inner()

    with sampling(core) as sampler, pytest.raises(StopIteration):
        outer().send(None)
    known = Known()
    known.learn(sampler)
    names = [[frame[1] for frame in known.chain(row["arg"])] for row in samples(core)]
    assert any(chain[:4] == ["spin", "generate", "inner", "outer"] for chain in names)
    told = [function for _, _, function, _ in known.nodes.values()]
    yields = {function.split(".")[-2] for function in told if function.endswith(".<generator>")}
    assert "generate" in yields
    assert not yields & {"inner", "outer", "spin"}


def test_a_generator_that_is_left_and_entered_all_the_time_is_seen_with_its_caller(
    core: Any,
) -> None:
    def consume(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sum(number * number for number in range(1000))

    with sampling(core, interval_ns=MS // 2) as sampler:
        consume(0.6)
    known = Known()
    known.learn(sampler)
    chains = [[frame[1] for frame in known.chain(row["arg"])] for row in samples(core)]
    within = [chain for chain in chains if chain[0] == "<genexpr>"]
    assert len(within) > 20
    assert sum("consume" not in chain for chain in within) <= 0.03 * len(within)


def test_a_deep_recursion_is_walked_to_its_end(core: Any) -> None:
    def dig(depth: int) -> None:
        if depth:
            dig(depth - 1)
        else:
            spin(0.15)

    with sampling(core) as sampler:
        dig(400)
    known = Known()
    known.learn(sampler)
    dug = [[frame[1] for frame in known.chain(row["arg"])] for row in samples(core)]
    assert any(chain.count("dig") == 401 and chain[-1] != "dig" for chain in dug)


def test_stacks_deeper_than_1024_keep_their_inner_frames_and_are_counted(core: Any) -> None:
    def dig(depth: int) -> None:
        if depth:
            dig(depth - 1)
        else:
            spin(0.15)

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        with sampling(core) as sampler:
            dig(2000)
    finally:
        sys.setrecursionlimit(before)
    known = Known()
    known.learn(sampler)
    lengths = {len(known.chain(row["arg"])) for row in samples(core)}
    assert max(lengths) == 1024
    assert sampler.counters()["truncated"] > 0


def test_it_stops_and_starts_again_and_a_second_one_keeps_its_numbers_apart(core: Any) -> None:
    known = Known()
    with sampling(core) as first:
        with pytest.raises(RuntimeError, match="running"):
            first.start(MS)
        with pytest.raises(RuntimeError, match="running"):
            core.StackSampler(1).start(MS)
        spin(0.05)
    first.stop()
    known.learn(first)
    assert known.nodes
    assert first.resolve() == []
    first.start(MS)
    spin(0.05)
    first.stop()
    known.learn(first)
    with sampling(core) as second:
        spin(0.05)
    known.learn(second)  # fails on a number that was used before
    assert samples(core)
    spin(0.02)
    assert core.drain() == b""


def test_a_thread_that_waits_is_told_of_new_stacks_and_is_not_sampled(core: Any) -> None:
    known = Known()
    waits: list[int] = []

    def resolve() -> None:
        while sampler.wait():
            known.learn(sampler)
            waits.append(threading.get_native_id())

    with sampling(core) as sampler:
        thread, track = in_thread(resolve)
        spin(0.3)
        assert waits == [track] * len(waits) != []
    thread.join()
    assert sampler.wait() is False
    known.learn(sampler)
    rows = samples(core)
    assert all(row["arg"] in known.nodes for row in rows)
    late = rows[len(rows) // 2 :]  # it may be seen once on its way to the first wait
    assert {row["track"] for row in late} == {threading.get_native_id()}


def test_nothing_new_wakes_nobody(core: Any) -> None:
    woken: list[int] = []

    def resolve() -> None:
        while sampler.wait():
            sampler.resolve()
            woken.append(core.now_ns())

    with sampling(core, threads=[threading.get_native_id()]) as sampler:
        thread, _ = in_thread(resolve)
        time.sleep(0.6)  # one stack all the time
    thread.join()
    assert 1 <= len(woken) <= 3


def test_counters_tell_what_was_taken_and_what_it_cost(core: Any) -> None:
    with sampling(core) as sampler:
        spin(0.2)
        while_running = sampler.counters()
    counters = sampler.counters()
    assert counters["taken"] == len(samples(core)) >= while_running["taken"] > 10
    assert 0 < while_running["cpu_ns"] <= counters["cpu_ns"] < 100 * MS
    assert counters["nodes"] == len(sampler.resolve())
    assert counters["lost_nodes"] == counters["truncated"] == 0
    assert counters["torn"] <= counters["taken"] / 5


@pytest.mark.parametrize("interval_ns", [0, -5])
def test_an_interval_is_positive(core: Any, interval_ns: int) -> None:
    with pytest.raises(ValueError, match="interval"):
        core.StackSampler(1).start(interval_ns)


@pytest.mark.not_under("tsan", reason="it cannot start threads in a forked child")
def test_looks_that_come_late_are_counted(core: Any) -> None:
    pid = os.fork()  # a child that is stopped for a while: whatever it wanted to do comes late
    if pid == 0:
        core.after_fork()
        with sampling(core, interval_ns=5 * MS) as sampler:
            spin(0.6)
        os._exit(0 if sampler.counters()["late"] >= 1 else 1)
    time.sleep(0.2)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_full_ring_drops_samples_and_counts_them(core: Any) -> None:
    before = core.counters()["dropped"]
    done = threading.Event()
    threads = [in_thread(done.wait)[0] for _ in range(40)]  # the twin looks seldom, but at all
    with sampling(core, interval_ns=20_000) as sampler:
        while core.counters()["dropped"] == before:
            spin(0.02)
    done.set()
    for thread in threads:
        thread.join()
    rows = samples(core)
    dropped = core.counters()["dropped"] - before
    assert sampler.counters()["taken"] == len(rows) + dropped


def test_code_that_was_freed_is_never_taken_for_other_code(core: Any) -> None:
    """Made, run and freed at a high rate, while nobody resolves: most of it is gone by then."""
    lines: dict[str, int] = {}
    with sampling(core, interval_ns=200_000) as sampler:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            number = len(lines)
            name = f"made_{number}.py"
            code: CodeType = compile("\n" * (number % 50) + "sum(range(3000))", name, "exec")
            lines[name] = number % 50 + 1
            exec(code, {})
            del code
    for _, _, file, function, line in sampler.resolve():
        if file.startswith("made_"):
            assert function == "<module>"
            assert line in (1, lines[file])  # 1: before its first statement
        else:
            assert (file == "") == (function == "?")


@pytest.mark.not_under("tsan", reason="it cannot start threads in a forked child")
def test_a_forked_child_samples_itself(core: Any) -> None:
    with sampling(core) as sampler:
        spin(0.05)
        pid = os.fork()
        if pid == 0:
            os._exit(child(core, sampler))
        spin(0.05)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert sampler.counters()["taken"] > 10


def child(core: Any, inherited: Any) -> int:
    core.after_fork()
    inherited.stop()  # the parent's: nothing to wait for
    drained: list[bytes] = []
    for sampler in (core.StackSampler(core.intern("stack")), inherited):
        known = Known()
        sampler.resolve()
        sampler.start(MS)
        spin(0.1)
        sampler.stop()
        known.learn(sampler)
        rows = samples(core, drained)
        seen = {frame[1] for row in rows for frame in known.chain(row["arg"])}
        if "spin" not in seen or {row["track"] for row in rows} != {os.getpid()}:
            return 1
    return 0


@pytest.mark.parametrize("which", CORES)
def test_python_ends_while_it_samples(which: str) -> None:
    program = """
import sys, threading, time
if sys.argv[1] == "native":
    from stepscope.record import _native as core
else:
    from stepscope.record.twin import TwinCore
    core = TwinCore()
sampler = core.StackSampler(core.intern("stack"))
sampler.start(50_000)
def resolve():
    while sampler.wait():
        sampler.resolve()
threading.Thread(target=resolve, daemon=True).start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
exec("def f(): time.sleep(0.1)"); f()
"""
    command = [sys.executable, "-c", program, which]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_native_core_that_does_not_know_the_frames_samples_with_the_twins() -> None:
    program = """
import threading, time
from stepscope.record import _native
if hasattr(_native, "StackSampler"):
    del _native.StackSampler  # as on a Python that is newer than we are
from stepscope.record.core import core
assert core is _native
sampler = core.StackSampler(core.intern("stack"))
sampler.start(1_000_000)
time.sleep(0.1)
sampler.stop()
assert 5 < sampler.counters()["taken"] == core.counters()["recorded"]
print({function for _, _, _, function, _ in sampler.resolve()})
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "<module>" in ended.stdout, ended.stderr
