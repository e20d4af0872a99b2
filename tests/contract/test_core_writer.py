"""What both cores promise about files."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import CORES, native_core
from tests.contract.frames_reader import decode

pytestmark = pytest.mark.threaded  # the writer is a thread

OPEN = 2


def read(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("**/*.frames")))


def record(core: Any, count: int = 1, name: str = "event") -> None:
    number = core.intern(name)
    for i in range(count):
        core.mark(number, i)


def build_library(folder: Path, source: str) -> str:
    """A library to preload; its path."""
    compiler = shutil.which("gcc") or pytest.skip("there is no compiler to build a library with")
    (folder / "preloaded.c").write_text(source)
    built = folder / "preloaded.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", built, folder / "preloaded.c", "-ldl"], check=True
    )
    return str(built)


def wait_for(condition: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_process_that_records_nothing_leaves_no_file(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "rank-00000" / "p"), b"{}")
    core.flush()
    core.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_starts_with_the_header_and_holds_the_events(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "rank-00000" / "p"), b'{"pid": 1}')
    record(core, 10)
    core.close()
    decoded = decode((tmp_path / "rank-00000" / "p.0000.frames").read_bytes())
    assert decoded.header == {"pid": 1}
    assert [row["arg"] for row in decoded.named("event")] == list(range(10))


def test_events_leave_within_about_a_second_without_being_asked(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    record(core)
    wait_for(lambda: read(tmp_path))
    assert len(decode(read(tmp_path)).named("event")) == 1


def test_a_full_batch_leaves_before_the_second_is_over(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    core.flush()
    began = time.monotonic()
    record(core, 2000)
    wait_for(lambda: read(tmp_path))
    left_after = time.monotonic() - began
    # Not a speed test: the timer alone could not have done it.
    assert left_after < 0.9 or pytest.skip(f"the machine stood still for {left_after:.1f} s")


def test_its_own_cost_and_losses_are_recorded_along(core: Any, tmp_path: Path) -> None:
    own = tuple(core.intern(f"own-{i}") for i in range(6))
    calls_before = core.counters()["calls"]
    core.open(str(tmp_path / "p"), b"{}", "", own)
    core.end(core.begin(core.intern("a")))
    core.is_open(core.intern("a"))
    core.close()
    decoded = decode(read(tmp_path))
    assert [decoded.named(f"own-{i}")[0]["type"] for i in range(6)] == [2] * 6
    assert decoded.named("own-3")[0]["value"] - calls_before == 1


def test_a_span_that_stays_open_is_written_as_open(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    token = core.begin(core.intern("stuck"), 5)
    wait_for(lambda: read(tmp_path))
    (row, *_) = decode(read(tmp_path)).named("stuck")
    assert row["flags"] == OPEN
    assert row["duration_ns"] >= 1_000_000_000
    core.end(token)
    core.close()
    assert decode(read(tmp_path)).named("stuck")[-1]["flags"] == 0


def test_a_new_file_begins_after_eight_mebibytes_and_repeats_the_names(
    core: Any, tmp_path: Path
) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    for _ in range(80):
        record(core, 1900)
        core.flush()
    core.close()
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["p.0000.frames", "p.0001.frames"]
    assert files[0].stat().st_size >= 8 << 20
    counts = [len(decode(path.read_bytes()).named("event")) for path in files]
    assert sum(counts) == 80 * 1900


def test_the_status_page_tells_counts_step_and_open_span(core: Any, tmp_path: Path) -> None:
    status = tmp_path / "status"
    core.open(str(tmp_path / "p"), b"{}", str(status))
    core.set_step(41)
    token = core.begin(core.intern("input.next"))
    recorded = core.counters()["recorded"]
    core.flush()
    core.end(token)
    fields = struct.unpack("<8s6q64s8x", status.read_bytes())
    assert fields[0] == b"STPSTAT1"
    assert fields[1] == os.getpid()
    assert fields[2] == recorded
    assert fields[6] == 41
    assert fields[7].rstrip(b"\0") == b"input.next"


def test_a_folder_that_cannot_be_made_costs_events_not_the_program(
    core: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    lost_before = core.counters()["lost"]
    core.open(str(tmp_path / "file" / "p"), b"{}")
    record(core, 5)
    core.close()
    counters = core.counters()
    assert counters["lost"] - lost_before >= 5
    assert counters["last_errno"] == errno.ENOTDIR


def test_a_vanished_folder_is_noticed_and_its_events_count_as_lost(
    core: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    lost_before = core.counters()["lost"]
    core.open(str(run / "rank-00000" / "p"), b"{}")
    record(core, 5)
    core.flush()
    shutil.rmtree(run)
    record(core, 3)
    core.close()
    assert core.counters()["lost"] - lost_before >= 8
    assert core.counters()["last_errno"] == errno.ENOENT
    assert not run.exists()


def test_a_paused_writer_has_no_thread_and_loses_nothing(core: Any, tmp_path: Path) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    core.open(str(tmp_path / "p"), b"{}")
    record(core, 3)
    running = threads()
    core.pause()
    wait_for(lambda: threads() == running - 1)  # the kernel takes a moment after the join
    record(core, 2)
    core.resume()
    assert threads() == running
    wait_for(lambda: len(decode(read(tmp_path)).named("event")) == 5)
    core.pause()
    record(core, 1)
    core.close()
    assert len(decode(read(tmp_path)).named("event")) == 6


FULL_DISK = """
import os, resource, signal, sys
os.environ["STEPSCOPE_CORE"] = sys.argv[1]
from stepscope.record.core import core
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
core.open(sys.argv[2], b"{}")
name = core.intern("event")
for i in range(1000):
    core.mark(name, i)
core.flush()
size = os.path.getsize(sys.argv[2] + ".0000.frames")
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, resource.RLIM_INFINITY))
for i in range(1000):
    core.mark(name, 1000 + i)
core.flush()
assert core.counters()["lost"] >= 1000, core.counters()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
for i in range(10):
    core.mark(name, 2000 + i)
core.close()
print(core.counters()["last_errno"])
"""


@pytest.mark.parametrize("kind", CORES)
def test_a_write_that_is_cut_short_leaves_a_readable_file_and_is_made_good(
    kind: str, tmp_path: Path
) -> None:
    script = textwrap.dedent(FULL_DISK)
    done = subprocess.run(
        [sys.executable, "-c", script, kind, str(tmp_path / "p")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == errno.EFBIG
    args = [row["arg"] for row in decode(read(tmp_path)).named("event")]
    assert args == [*range(1000), *range(2000, 2010)]


FORK = """
import os, sys, time
os.environ["STEPSCOPE_CORE"] = sys.argv[1]
from stepscope.record.core import core
base = sys.argv[2]
core.open(base + "/parent", b"{}")
name = core.intern("event")
outer = core.begin(core.intern("outer"))
core.mark(name, 1)
pid = os.fork()
if pid == 0:
    core.after_fork()
    core.open(base + "/child", b"{}")
    core.end(outer)          # the parent's span: not ours to end
    core.mark(name, 2)
    core.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
core.mark(name, 3)
core.end(outer)
core.close()
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.not_under("tsan", reason="it cannot start threads in a forked child")
@pytest.mark.parametrize("kind", CORES)
def test_after_a_fork_parent_and_child_write_their_own_events_once(
    kind: str, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-c", FORK, kind, str(tmp_path)], check=True, timeout=60)
    parent = decode((tmp_path / "parent.0000.frames").read_bytes())
    child = decode((tmp_path / "child.0000.frames").read_bytes())
    assert [row["arg"] for row in parent.named("event")] == [1, 3]
    assert [row["arg"] for row in child.named("event")] == [2]
    assert len(parent.named("outer")) == 1
    assert child.named("outer") == []


KILLED = """
import os, sys, time
os.environ["STEPSCOPE_CORE"] = sys.argv[1]
from stepscope.record.core import core
core.open(sys.argv[2], b"{}")
name = core.intern("event")
i = 0
while True:
    core.mark(name, i)
    i += 1
    if i % 1000 == 0:
        print(i, flush=True)
        time.sleep(0.01)
"""


@pytest.mark.parametrize("kind", CORES)
def test_what_was_written_survives_kill_9(kind: str, tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, kind, str(tmp_path / "p")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    wait_for(lambda: read(tmp_path))
    time.sleep(0.3)
    child.kill()
    child.wait()
    child.stdout.close()
    args = [row["arg"] for row in decode(read(tmp_path)).named("event")]
    assert len(args) >= 1900
    assert args == list(range(len(args)))


COND_INIT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
static int inits;
int count_inits(void) { return inits; }
int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    static int (*init)(pthread_cond_t *, const pthread_condattr_t *);
    if (!init) init = dlvsym(RTLD_NEXT, "pthread_cond_init", "GLIBC_2.3.2"); /* of x86 */
    if (!init) init = dlsym(RTLD_NEXT, "pthread_cond_init");
    Dl_info owner;
    inits += dladdr(condition, &owner) && strstr(owner.dli_fname, "_native");
    return init(condition, attributes);
}
"""
RESUMES = """
import ctypes
from stepscope.record import _native as core
core.open("p", b"{}")
for _ in range(3):
    core.pause()
    core.resume()
core.open("q", b"{}")
core.close()
print(ctypes.CDLL(None).count_inits())
"""


@pytest.mark.not_under("asan", "tsan", reason="it preloads a library of its own")
def test_the_condition_that_wakes_the_writer_is_initialised_once(tmp_path: Path) -> None:
    """A thread that records may signal it at any time, even while the writer is stopped."""
    native_core()
    preloaded = build_library(tmp_path, COND_INIT)
    done = subprocess.run(
        [sys.executable, "-c", RESUMES], cwd=tmp_path, env=os.environ | {"LD_PRELOAD": preloaded},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_spans_open_and_close_while_the_writer_reads_them(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    dropped = core.counters()["dropped"]
    outer, inner = (core.span(core.intern(name)) for name in ("outer", "inner"))
    for _ in range(10_000):  # each batch of events wakes the writer
        with outer, inner:
            pass
    core.close()
    rows = decode(read(tmp_path)).rows
    closed = [row for row in rows if row["name"] in ("outer", "inner") and not row["flags"] & OPEN]
    assert len(closed) + core.counters()["dropped"] - dropped == 20_000


def test_two_threads_that_fork_at_once_do_not_wait_for_each_other(
    core: Any, tmp_path: Path
) -> None:
    core.open(str(tmp_path / "p"), b"{}")

    def fork_often() -> None:
        for _ in range(200):
            core.pause()
            record(core)
            core.resume()

    threads = [threading.Thread(target=fork_often, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    core.close()
    assert len(decode(read(tmp_path)).named("event")) == 800


CLOSED_DESCRIPTORS = """
import os, sys
os.environ["STEPSCOPE_CORE"] = sys.argv[1]
from stepscope.record.core import core
core.open(sys.argv[2] + "/p", b"{}", sys.argv[2] + "/status")
core.mark(core.intern("event"))
core.flush()
os.closerange(3, 64)                      # as daemons do
mine = [os.open(f"{sys.argv[2]}/mine-{i}", os.O_RDWR | os.O_CREAT) for i in range(40)]
core.mark(core.intern("event"))
core.close()
assert all(os.fstat(fd).st_size == 0 for fd in mine)
assert core.counters()["last_errno"] == 9, core.counters()
"""


@pytest.mark.parametrize("kind", CORES)
def test_a_file_of_the_program_that_got_our_number_is_left_alone(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLOSED_DESCRIPTORS, kind, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    assert len(decode(read(tmp_path)).named("event")) == 2


FULL_FROM_THE_START = """
import os, resource, signal, sys
os.environ["STEPSCOPE_CORE"] = sys.argv[1]
from stepscope.record.core import core
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
core.open(sys.argv[2], b"{}")
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
core.mark(core.intern("event"), 1)
core.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
core.mark(core.intern("event"), 2)
core.close()
"""


@pytest.mark.parametrize("kind", CORES)
def test_a_file_whose_first_write_failed_still_starts_with_its_header(
    kind: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", FULL_FROM_THE_START, kind, str(tmp_path / "p")]
    subprocess.run(command, check=True, timeout=60)
    decoded = decode(read(tmp_path))
    assert decoded.header == {}
    assert [row["arg"] for row in decoded.named("event")] == [2]


@pytest.mark.not_under("tsan", reason="writing half a gigabyte takes minutes there")
@pytest.mark.parametrize("has_launcher", [True, False])
def test_where_nobody_takes_its_files_away_the_first_and_the_newest_stay(
    core: Any, tmp_path: Path, *, has_launcher: bool
) -> None:
    """GIVEN a launcher that is gone, or none WHEN the program goes on and on
    THEN its files stay bounded, and what went with the old ones counts as lost."""
    lost_before = core.counters()["lost"]
    status = str(tmp_path / "status") if has_launcher else ""
    core.open(str(tmp_path / "p"), bytes(8 << 20), status)  # each batch fills a file
    event = core.intern("event")
    for number in range(70):
        core.mark(event, number)
        core.flush()
        os.truncate(tmp_path / f"p.{number:04d}.frames", 0)  # the test has no such disk
        if number in (2, 3):
            (tmp_path / f"p.{number:04d}.frames").unlink()  # converted, when there was a launcher
    numbers = sorted(int(path.name.split(".")[1]) for path in tmp_path.glob("p.*"))
    assert numbers == [0, *range(6, 70)]
    assert core.counters()["lost"] - lost_before == 3


CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long ahead_s;
void put_forward(long seconds) { ahead_s += seconds; }
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_MONOTONIC) now->tv_sec += ahead_s;
    return failed;
}
"""
SLOWLY = """
import ctypes, os, sys
os.environ["STEPSCOPE_CORE"] = sys.argv[1]
from stepscope.record.core import core
core.open("p", bytes(8 << 20), sys.argv[2])  # each batch fills a file
event = core.intern("event")
for number in range(20):
    core.mark(event, number)
    core.flush()
    os.truncate(f"p.{number:04d}.frames", 0)
    ctypes.CDLL(None).put_forward(61)
print(core.counters()["lost"], *sorted(name[2:6] for name in os.listdir() if name[:2] == "p."))
"""


@pytest.mark.not_under("asan", "tsan", reason="it preloads a clock of its own")
@pytest.mark.parametrize("kind", CORES)
def test_only_files_that_are_a_launcher_s_to_take_are_dropped_after_a_minute(
    kind: str, tmp_path: Path
) -> None:
    """GIVEN files that fill slowly WHEN no launcher takes them away THEN 16 stay beside the first;
    a program that profiles itself reads them back and lets go of them when it has: none is lost."""
    clock = build_library(tmp_path, CLOCK)

    def left(status: str) -> list[int]:
        """Events that are lost, and then the numbers of the files."""
        folder = tmp_path / f"with-{status or 'nothing'}"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", SLOWLY, kind, status],
            cwd=folder,
            env=os.environ | {"LD_PRELOAD": clock},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        return [int(number) for number in done.stdout.split()]

    assert left("status") == [3, 0, *range(4, 20)]
    assert left("") == [0, *range(20)]


def test_who_is_in_no_hurry_has_events_written_less_often(core: Any, tmp_path: Path) -> None:
    assert core.set_pace(60_000_000_000, 10_000_000) == (1_000_000_000, 10_000_000)
    core.open(str(tmp_path / "p"), b"{}")
    record(core)
    time.sleep(1.5)
    waited = read(tmp_path)
    before = core.set_pace()  # as usual: it does not wait for the end of the minute
    assert before == (60_000_000_000, 10_000_000)
    wait_for(lambda: read(tmp_path))
    assert waited == b""


def test_full_batches_leave_whatever_the_pace(core: Any, tmp_path: Path) -> None:
    core.set_pace(60_000_000_000, 10_000_000)
    core.open(str(tmp_path / "p"), b"{}")
    for _ in range(3):
        before = len(read(tmp_path))
        record(core, 2000)
        wait_for(lambda before=before: len(read(tmp_path)) > before)
    core.close()
    core.set_pace()
    assert len(decode(read(tmp_path)).named("event")) == 6000


def test_a_pace_without_a_pause_is_refused(core: Any) -> None:
    with pytest.raises(ValueError, match="not negative"):
        core.set_pace(0)


def test_a_process_that_is_watched_is_sampled_at_even_distances(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    rss, cpu = core.intern("rss"), core.intern("cpu")
    cpu_before = time.process_time_ns()
    core.watch_process(rss, cpu, 20_000_000)
    wait_for(lambda: len(decode(read(tmp_path)).named("rss")) >= 20)
    core.watch_process(rss, cpu, 0)
    core.flush()
    decoded = decode(read(tmp_path))
    held, took = decoded.named("rss"), decoded.named("cpu")
    assert all(row["arg"] == os.getpid() and row["value"] > 1e6 for row in held)
    assert took[0]["value"] >= cpu_before
    assert took[-1]["value"] <= time.process_time_ns()
    assert [row["value"] for row in took] == sorted(row["value"] for row in took)
    gaps = sorted(
        after["time_ns"] - before["time_ns"] for before, after in itertools.pairwise(held)
    )
    assert 15e6 < gaps[len(gaps) // 2] < 25e6 or pytest.skip("the machine stood still")


def test_a_process_that_is_not_watched_any_more_is_left_alone(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    core.watch_process(core.intern("rss"), core.intern("cpu"), 1_000_000)
    wait_for(lambda: read(tmp_path))
    core.watch_process(0, 0, 0)
    core.flush()
    before = read(tmp_path)
    time.sleep(0.05)
    core.flush()
    assert read(tmp_path) == before


def test_samples_of_the_process_are_written_before_they_run_out_of_room(
    core: Any, tmp_path: Path
) -> None:
    """Two thousand in a second, where 128 may wait."""
    core.open(str(tmp_path / "p"), b"{}")
    core.watch_process(core.intern("rss"), core.intern("cpu"), 500_000)
    wait_for(lambda: len(decode(read(tmp_path)).named("cpu")) > 400)
    core.close()
    core.watch_process(0, 0, 0)
    decoded = decode(read(tmp_path))
    assert len(decoded.named("cpu")) == len(decoded.named("rss"))


@pytest.mark.not_under("tsan", reason="it cannot start threads in a forked child")
def test_a_forked_child_is_not_watched(core: Any, tmp_path: Path) -> None:
    core.open(str(tmp_path / "parent"), b"{}")
    core.watch_process(core.intern("rss"), core.intern("cpu"), 1_000_000)
    core.pause()
    child = os.fork()
    if child == 0:
        core.after_fork()
        core.open(str(tmp_path / "child"), b"{}")
        record(core)
        time.sleep(0.05)
        core.close()
        os._exit(0)
    core.resume()
    os.waitpid(child, 0)
    core.close()
    core.watch_process(0, 0, 0)
    decoded = decode((tmp_path / "child.0000.frames").read_bytes())
    assert len(decoded.named("event")) == 1
    assert not decoded.named("rss")


def test_an_interval_that_is_negative_is_refused(core: Any) -> None:
    with pytest.raises(ValueError, match="not negative"):
        core.watch_process(1, 2, -1)


def test_where_steps_end_often_samples_of_the_process_are_as_even(
    core: Any, tmp_path: Path
) -> None:
    core.open(str(tmp_path / "p"), b"{}")
    core.watch_process(core.intern("rss"), core.intern("cpu"), 20_000_000)
    end = time.monotonic() + 0.6
    step = 0
    while time.monotonic() < end:
        core.set_step(step := step + 1)
        time.sleep(0.001)
    time.sleep(0.2)  # the last step takes long: somebody else has to look
    core.close()
    core.watch_process(0, 0, 0)
    rows = decode(read(tmp_path)).named("rss")
    while_it_steps = [row for row in rows if row["step"] < step]
    gaps = sorted(b["time_ns"] - a["time_ns"] for a, b in itertools.pairwise(while_it_steps))
    assert len(while_it_steps) >= 15 or pytest.skip("the machine stood still")
    assert 15e6 < gaps[len(gaps) // 2] < 25e6 or pytest.skip("the machine stood still")
    assert len([row for row in rows if row["step"] == step]) >= 3
