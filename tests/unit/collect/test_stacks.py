from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.analyze.lines import LineFold
from stepscope.collect import stacks
from stepscope.collect.stacks import StackCollector
from stepscope.model import names
from stepscope.model.event import Row
from stepscope.record.core import core as best_core
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from stepscope.store.frames import FramesReader
from tests.unit.analyze.made import batch
from tests.unit.collect.conftest import Read


@pytest.fixture(params=["best", "python"])
def recorder(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    """Of the core that this machine would use, and of the twin."""
    core: Any = best_core if request.param == "best" else TwinCore()
    core.drain()
    core.close()  # from here on it tells its names anew
    yield Recorder(core)
    core.drain()


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(50))


def run_named(recorder: Recorder, identity: str, seconds: float) -> None:
    """A run of an operation as profilers record it."""
    text = recorder.intern(identity)
    recorder.mark(recorder.intern(names.OPERATION_BEGIN), 0, text)
    began_ns = recorder.now_ns()
    spin(seconds)
    # `complete` has no text: this test reads rows, so the name of the span carries it.
    lasted_ns = recorder.now_ns() - began_ns
    recorder.complete(recorder.intern(f"{names.OPERATION}:{identity}"), began_ns, lasted_ns)


def fold_of(rows: list[Row]) -> LineFold:
    events = []
    for row in rows:
        event = {column: value for column, value in row._asdict().items() if value != ""}
        if row.name.startswith(f"{names.OPERATION}:"):
            event |= {"name": names.OPERATION, "text": row.name.split(":", 1)[1]}
        events.append(event)
    fold = LineFold()
    fold.update(batch(events))
    return fold


def test_a_block_is_seen_line_by_line(recorder: Recorder, read: Read, started: Any) -> None:
    collector = started(StackCollector(0.001))
    spin(0.05)
    run_named(recorder, "1/fit", 0.2)
    spin(0.05)
    collector.stop()
    found = fold_of(read()).get("1/fit")
    assert found.unnamed_ns == 0
    assert 0.15e9 < found.total_ns < 0.26e9
    functions = {one.function: one for one in found.functions}
    assert functions["spin"].file == __file__
    assert functions["spin"].self_ns > 0.8 * found.total_ns
    first = spin.__code__.co_firstlineno
    lines = {line.line for line in functions["spin"].lines}
    assert lines <= {first, first + 1, first + 2, first + 3}
    assert recorder.failures == {}


def test_stacks_are_named_while_it_runs(recorder: Recorder, read: Read, started: Any) -> None:
    started(StackCollector(0.001))
    spin(0.3)
    assert read(names.STACK_FRAME)


def test_all_that_was_seen_has_a_name_when_it_stopped(
    recorder: Recorder, read: Read, started: Any
) -> None:
    collector = started(StackCollector(0.001))
    for _ in range(3):  # and again
        spin(0.03)
        collector.stop()
        collector.stop()
        collector.start(recorder)
    collector.stop()
    rows = read()
    named = {row.arg for row in rows if row.name == names.STACK_FRAME}
    used = {row.arg for row in rows if row.name == names.STACK}
    assert used <= named
    assert used


def test_our_own_threads_are_not_seen(recorder: Recorder, read: Read, started: Any) -> None:
    done = threading.Event()
    # Also those that threading does not know: who runs tests in parallel has one.
    others = {int(path.name) for path in Path("/proc/self/task").iterdir()}
    others.discard(threading.get_native_id())
    own = threading.Thread(target=done.wait, name="stepscope-system")
    own.start()
    collector = started(StackCollector(0.001))
    spin(0.2)
    collector.stop()
    done.set()
    own.join()
    rows = read(names.STACK)
    late = rows[len(rows) // 2 :]
    assert {row.track for row in late} - others == {threading.get_native_id()}


def test_only_the_threads_that_are_asked_for(
    recorder: Recorder, read: Read, started: Any
) -> None:  # fmt: skip
    other = threading.Thread(target=spin, args=(0.15,))
    other.start()
    assert other.native_id is not None
    collector = started(StackCollector(0.001, [other.native_id]))
    other.join()
    collector.stop()
    assert {row.track for row in read(names.STACK)} == {other.native_id}


def looks_in(recorder: Recorder, read: Read, seconds: float) -> int:
    """How often this thread is seen in that time."""
    began_ns = recorder.now_ns()
    spin(seconds)
    mine = [row for row in read(names.STACK) if row.track == threading.get_native_id()]
    return sum(row.time_ns > began_ns for row in mine)


def test_two_share_a_sampler_and_the_finer_interval_holds_while_somebody_wants_it(
    recorder: Recorder, read: Read, started: Any
) -> None:
    coarse = started(StackCollector(0.1))
    fine = started(StackCollector(0.002))
    assert looks_in(recorder, read, 0.4) > 12
    fine.stop()
    assert 1 <= looks_in(recorder, read, 0.4) <= 8
    fine.start(recorder)
    coarse.stop()
    assert looks_in(recorder, read, 0.4) > 12
    fine.stop()
    assert looks_in(recorder, read, 0.1) == 0
    rows = read()
    used = {row.arg for row in rows if row.name == names.STACK}
    assert used == used & {row.arg for row in rows if row.name == names.STACK_FRAME} != set()
    assert recorder.failures == {}


def test_one_that_wants_all_threads_beside_one_that_wants_some_sees_all(
    recorder: Recorder, read: Read, started: Any
) -> None:
    other = threading.Thread(target=spin, args=(0.3,))
    other.start()
    assert other.native_id is not None
    started(StackCollector(0.005, [other.native_id]))
    second = started(StackCollector(0.005))
    other.join()
    second.stop()
    tracks = {row.track for row in read(names.STACK)}
    assert tracks >= {other.native_id, threading.get_native_id()}


def test_who_begins_to_listen_later_can_have_all_numbers_told_again(
    recorder: Recorder, read: Read, started: Any
) -> None:
    collector = started(StackCollector(0.001))
    spin(0.1)
    collector.stop()
    before = {row.arg: row.text for row in read(names.STACK_FRAME)}
    began_ns = recorder.now_ns()
    stacks.tell_stacks_again()
    again = [row for row in read(names.STACK_FRAME) if row.time_ns > began_ns]
    assert {row.arg: row.text for row in again} == before != {}


def test_another_core_at_the_same_time_is_a_failure_of_ours_not_of_the_program(
    recorder: Recorder, started: Any
) -> None:
    started(StackCollector(0.001))
    another: Any = TwinCore()
    elsewhere = Recorder(another)
    second = StackCollector(0.001)
    second.start(elsewhere)
    assert elsewhere.failures == {"starting the stack sampler": 1}
    second.stop()
    second.resolve()


def test_what_it_costs_is_recorded(recorder: Recorder, read: Read, started: Any) -> None:
    collector = started(StackCollector(0.001))
    spin(0.3)
    collector.stop()
    said = max(row.value for row in read(names.OWN_STACKS_CPU_NS))
    assert collector.counters()["cpu_ns"] <= said < 0.15e9


PROGRAM = """
import os, sys, threading, time
from pathlib import Path

seen = []
tasks = Path("/proc/self/task")
os.register_at_fork(before=lambda: seen.append(len(list(tasks.iterdir()))))  # runs after later ones

from stepscope.collect.stacks import StackCollector
from stepscope.record.recorder import Recorder

recorder = Recorder()
collector = StackCollector(0.001)
collector.start(recorder)
time.sleep(0.05)
seen.append(len(list(tasks.iterdir())))
pid = os.fork()
if pid == 0:
    collector.stop()
    os._exit(threading.active_count() - 1)
taken = collector.counters()["taken"]
end = time.monotonic() + 0.1
while time.monotonic() < end:
    pass
print(seen, os.waitpid(pid, 0)[1], collector.counters()["taken"] > taken + 5, recorder.failures)
"""


@pytest.mark.parametrize("core", ["", "python"])
def test_a_fork_finds_no_thread_of_it_and_the_parent_goes_on(core: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | {"STEPSCOPE_CORE": core},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("[3, 1] 0 True {}\n", "")


def test_a_forked_child_may_sample_itself(recorder: Recorder, started: Any) -> None:
    collector = started(StackCollector(0.001))
    pid = os.fork()
    if pid == 0:
        recorder.after_fork()
        collector.start(recorder)
        spin(0.1)
        collector.stop()
        os._exit(0 if collector.counters()["taken"] > 3 and not recorder.failures else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


ENDS = """
import atexit, sys, time
from stepscope.collect.stacks import StackCollector
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header

recorder = Recorder()
recorder.open(sys.argv[1], process_header({}, [], recorder.core.name, Moment(0, 0)))
atexit.register(recorder.close)
StackCollector(0.001).start(recorder)
exec("def f(): time.sleep(0.02)")
f()
"""


@pytest.mark.parametrize("core", ["", "python"])
def test_a_program_that_ends_without_stopping_it_leaves_no_stack_unnamed(
    core: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", ENDS, str(tmp_path / "process")],
        env=os.environ | {"STEPSCOPE_CORE": core},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    batches = FramesReader(tmp_path / "process.0000.frames").read_new()
    rows = [row for batch in batches for row in batch.rows()]
    used = {row.arg for row in rows if row.name == names.STACK}
    named = {row.arg: row.text for row in rows if row.name == names.STACK_FRAME}
    assert used <= named.keys()
    assert any("\tf\t<string>" in text for text in named.values())


def test_too_many_names_are_refused_and_said(
    recorder: Recorder, read: Read, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "_NAMED_BYTES", stacks._named_bytes + 300)
    collector = started(StackCollector(0.001))
    spin(0.05)
    collector.stop()
    named = read(names.STACK_FRAME)
    assert 0 < sum(len(row.text) for row in named) <= 300
    assert recorder.failures["naming stacks"] > 0


def test_names_that_are_no_unicode_are_written(
    recorder: Recorder, read: Read, started: Any
) -> None:
    namespace: dict[str, Any] = {"spin": spin}
    exec(compile("def f():\n    spin(0.1)", "odd\udcff\tname.py", "exec"), namespace)
    collector = started(StackCollector(0.001))
    namespace["f"]()
    collector.stop()
    texts = [row.text for row in read(names.STACK_FRAME)]
    assert any(text.endswith("\t2\tf\todd\\udcff\tname.py") for text in texts)
    assert recorder.failures == {}
