from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.collect.cpus import usable_cpus
from stepscope.collect.host import Host
from stepscope.collect.own_memory import watch_own_process
from stepscope.collect.portable import PortableHost, PortableTree
from stepscope.collect.process_tree import ProcessTree
from stepscope.collect.system import SystemCollector
from stepscope.model import names
from stepscope.model.event import Row
from stepscope.record.recorder import Recorder
from tests.contract.frames_reader import decode
from tests.unit.collect.conftest import Read

linux_only = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

FAMILY = """
import subprocess, sys, threading, time
child = subprocess.Popen([sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"])
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
end = time.process_time() + 0.1
while time.process_time() < end: pass
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A process that has used 0.1 s of CPU, and its child: their pids."""
    parent = subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    lines = parent.stdout.readline() + parent.stdout.readline()
    yield parent.pid, int(lines.split()[0])
    parent.communicate()


def by_name(rows: list[Row], pid: int) -> dict[str, float]:
    return {row.name: row.value for row in rows if row.arg == pid}


@linux_only
def test_a_process_and_its_children_are_sampled(
    recorder: Recorder, read: Read, family: tuple[int, int]
) -> None:
    parent, child = family
    tree = ProcessTree(parent)

    tree.sample(recorder)
    tree.close()

    found = by_name(read(), parent)
    assert found[names.PROCESS_CPU_NS] >= 0.1e9
    assert found[names.PROCESS_THREADS] == 2
    assert found[names.PROCESS_RSS_BYTES] > 1 << 20
    assert found[names.PROCESS_PEAK_RSS_BYTES] >= found[names.PROCESS_RSS_BYTES] * 0.9
    assert found[names.PROCESS_READ_CHARS] > 0
    assert found[names.PROCESS_MINOR_FAULTS] > 0
    assert found[names.PROCESS_SWITCHES] > 0
    assert names.PROCESS_RUN_DELAY_NS in found
    assert by_name(read(), child)[names.PROCESS_RSS_BYTES] > 1 << 20


@linux_only
def test_a_process_that_ends_is_forgotten(
    recorder: Recorder, read: Read, family: tuple[int, int]
) -> None:
    parent, child = family
    tree = ProcessTree(parent)
    tree.sample(recorder)
    os.kill(child, 9)
    time.sleep(0.1)

    before = len(read())
    tree.sample(recorder)

    assert by_name(read()[before:], child) == {}
    assert by_name(read()[before:], parent)
    tree.close()


@linux_only
def test_the_host_is_sampled(recorder: Recorder, read: Read) -> None:
    host = Host(os.getpid())

    host.sample(recorder)
    host.close()

    found = {row.name: row.value for row in read()}
    assert 0 < found[names.HOST_CPU_COUNT] <= (os.cpu_count() or 1)
    assert found[names.HOST_CPU_BUSY_NS] > 0
    total = found[names.HOST_MEMORY_TOTAL_BYTES]
    assert 0 < found[names.HOST_MEMORY_AVAILABLE_BYTES] < total


@linux_only
def test_what_cannot_be_read_is_not_sampled(recorder: Recorder, read: Read, tmp_path: Path) -> None:
    Host(os.getpid(), proc=str(tmp_path), sys=str(tmp_path)).sample(recorder)
    ProcessTree(os.getpid(), proc=str(tmp_path)).sample(recorder)

    assert {row.name for row in read()} <= {names.HOST_CPU_COUNT}


def test_under_a_quota_nobody_knows_who_else_would_have_used_the_cpus(
    recorder: Recorder, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    proc, group = tmp_path / "proc", tmp_path / "sys" / "fs" / "cgroup"
    (proc / str(os.getpid())).mkdir(parents=True)
    (proc / str(os.getpid()) / "cgroup").write_text("0::/\n")
    (proc / "stat").write_text("cpu  9 0 0 9 9 0 0 0\ncpu0 9 0 0 9 9 0 0 0\n")
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("150000 100000\n")

    Host(os.getpid(), str(proc), str(tmp_path / "sys")).sample(recorder)

    found = {row.name: row.value for row in read()}
    assert found[names.HOST_CPU_COUNT] == 1.5
    assert names.HOST_CPU_BUSY_NS not in found


def test_host_files_are_read_as_the_kernel_writes_them(
    recorder: Recorder, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    files = {
        # The program may run on the CPUs 0 and 2.
        "stat": (
            "cpu  100 10 50 900 30 1 2 3 0 0\ncpu0 10 1 5 90 3 0 0 1 0 0\n"
            "cpu1 80 8 40 720 24 1 2 1 0 0\ncpu2 10 1 5 90 3 0 0 1 0 0\nintr 1 2 3\n"
        ),
        "meminfo": "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n",
        "vmstat": "nr_free_pages 1\npswpin 7\npswpout 8\n",
        "diskstats": (
            "8 0 sda 1 0 100 0 1 0 200 0 0 0 0\n8 1 sda1 1 0 100 0 1 0 200 0 0 0 0\n"
            "253 0 dm-0 1 0 100 0 1 0 200 0 0 0 0\n"
        ),
        "net/dev": (
            "Inter-| Receive\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 5 0\n"
            "  eth0: 70 0 0 0 0 0 0 0 90 0\n"
        ),
        "pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=42\nfull total=1\n",
    }
    for name, text in files.items():
        path = tmp_path / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for disk in ("sda", "dm-0", "loop0"):
        (tmp_path / "sys" / "block" / disk).mkdir(parents=True)

    Host(os.getpid(), str(tmp_path / "proc"), str(tmp_path / "sys")).sample(recorder)

    found = {row.name: row.value for row in read()}
    tick_ns = 1e9 / os.sysconf("SC_CLK_TCK")
    assert found[names.HOST_CPU_BUSY_NS] == 34 * tick_ns
    assert found[names.HOST_CPU_IOWAIT_NS] == 6 * tick_ns
    assert found[names.HOST_MEMORY_AVAILABLE_BYTES] == 400 * 1024
    assert found[names.HOST_SWAP_IN_PAGES] == 7
    assert found[names.HOST_DISK_READ_BYTES] == 100 * 512
    assert found[names.HOST_DISK_WRITE_BYTES] == 200 * 512
    assert found[names.HOST_NET_RECEIVED_BYTES] == 70
    assert found[names.HOST_NET_SENT_BYTES] == 90
    assert found[names.HOST_PRESSURE_IO_NS] == 42_000
    assert names.HOST_PRESSURE_CPU_NS not in found


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        ("0::/a/b\n", {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "max 100000\n"}, 0.5),
        ("0::/gone/in/a/container\n", {"cpu.max": "25000 100000\n"}, 0.25),
        (
            "4:cpu,cpuacct:/x\n3:memory:/x\n",
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "75000\n",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            0.75,
        ),
    ],
    ids=["v2", "v2 in a container", "v1"],
)
def test_a_quota_limits_the_cpus(
    tmp_path: Path, groups: str, files: dict[str, str], cpus: float
) -> None:
    pid = os.getpid()
    (tmp_path / "proc" / str(pid)).mkdir(parents=True)
    (tmp_path / "proc" / str(pid) / "cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert usable_cpus(pid, str(tmp_path / "proc"), str(tmp_path / "sys")) == cpus


def test_the_thread_samples_again_and_again_and_once_at_the_end(
    recorder: Recorder, read: Read
) -> None:
    class Counts:
        seen = closed = 0

        def sample(self, recorder: Recorder) -> None:
            self.seen += 1

        def close(self) -> None:
            self.closed += 1

    counts = Counts()
    collector = SystemCollector(os.getpid(), 0.01, [counts])
    collector.start(recorder)
    collector.start(recorder)
    time.sleep(0.1)
    collector.stop()
    collector.stop()
    at_the_end = counts.seen

    assert at_the_end >= 3
    assert counts.closed == 1
    assert not [t for t in threading.enumerate() if t.name == "stepscope-system"]


def test_one_source_that_fails_does_not_silence_the_others(recorder: Recorder, read: Read) -> None:
    class Fails:
        def sample(self, recorder: Recorder) -> None:
            raise OSError("gone")

        def close(self) -> None:
            pass

    collector = SystemCollector(os.getpid(), 10, [Fails(), PortableHost()])
    collector.start(recorder)
    collector.stop()

    assert read(names.HOST_CPU_BUSY_NS)
    assert "sampling Fails" in recorder.failures


def test_psutil_serves_where_there_is_no_proc(recorder: Recorder, read: Read) -> None:
    tree = PortableTree(os.getpid())

    tree.sample(recorder)
    tree.close()

    found = by_name(read(), os.getpid())
    assert found[names.PROCESS_RSS_BYTES] > 1 << 20
    assert found[names.PROCESS_CPU_NS] > 0


def test_a_fork_finds_no_thread_and_the_parent_goes_on(recorder: Recorder) -> None:
    class Counts:
        count = 0

        def sample(self, recorder: Recorder) -> None:
            self.count += 1

        def close(self) -> None:
            pass

    counts = Counts()
    collector = SystemCollector(os.getpid(), 0.005, [counts])
    collector.start(recorder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python 3.12 and on: forks with threads are warned of
            child = os.fork()
            if child == 0:
                os._exit(threading.active_count() + 10 * collector.is_running)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 1
        before = counts.count
        while counts.count < before + 3:
            time.sleep(0.005)
    finally:
        collector.stop()


def test_the_thread_ends_when_there_is_no_reason_to_go_on_and_can_be_started_again(
    recorder: Recorder,
) -> None:
    goes_on = False
    collector = SystemCollector(os.getpid(), 0.001, [], keep_going=lambda: goes_on)
    for _ in range(2):
        collector.start(recorder)
        while collector.is_running:
            time.sleep(0.001)
    collector.stop()


class Glances:
    """A source that counts."""

    def __init__(self) -> None:
        self.samples = self.glances = 0

    def sample(self, recorder: Recorder) -> None:
        self.samples += 1

    def glance(self, recorder: Recorder) -> None:
        self.glances += 1

    def close(self) -> None:
        pass


def test_between_two_full_samples_there_are_glances(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.collect.system._GLANCE_S", 0.0)
    counts = Glances()
    collector = SystemCollector(os.getpid(), 0.001, [counts])
    collector.full_s = 3600.0
    collector.start(recorder)
    while counts.glances < 5:
        time.sleep(0.005)
    collector.stop()

    assert counts.samples == 2, "when it began and when it was stopped"


def test_an_interval_that_becomes_shorter_is_not_waited_for(recorder: Recorder) -> None:
    counts = Glances()
    collector = SystemCollector(os.getpid(), 3600.0, [counts])
    collector.start(recorder)
    while not counts.samples:
        time.sleep(0.001)
    collector.interval_s = 0.001
    collector.hurry()
    end_s = time.monotonic() + 60.0
    while counts.samples < 5:
        assert time.monotonic() < end_s, "it still sleeps"
        time.sleep(0.001)
    collector.stop()


@linux_only
def test_a_glance_at_the_machine_is_of_its_cpus_and_memory(recorder: Recorder, read: Read) -> None:
    host = Host(os.getpid())
    host.glance(recorder)
    host.close()

    found = {row.name for row in read()}
    assert found == {
        names.HOST_CPU_COUNT,
        names.HOST_CPU_BUSY_NS,
        names.HOST_CPU_IOWAIT_NS,
        names.HOST_MEMORY_TOTAL_BYTES,
        names.HOST_MEMORY_AVAILABLE_BYTES,
    }


@linux_only
def test_a_glance_at_processes_is_of_children_that_are_known(
    recorder: Recorder, read: Read
) -> None:
    tree = ProcessTree(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        tree.glance(recorder)
        assert read() == [], "it has not been seen yet, and we are asked elsewhere"
        tree.sample(recorder)
        before = len(read())
        tree.glance(recorder)
        # Other tests may have left children behind (torch starts one to read symbols).
        found = [row for row in read()[before:] if row.arg == child.pid]
        assert {row.name for row in found} == {names.PROCESS_CPU_NS, names.PROCESS_RSS_BYTES}
        assert os.getpid() not in {row.arg for row in read()[before:]}
    finally:
        child.communicate(b"\n")
    before = len(read())
    tree.glance(recorder)
    assert child.pid not in {row.arg for row in read()[before:]}
    tree.close()


@linux_only
def test_the_tree_and_the_glance_at_oneself_tell_the_same_clock(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.open(str(tmp_path / "p"), b"{}")
    watch_own_process(recorder, 0.001)
    tree = ProcessTree(os.getpid())
    for _ in range(5):
        tree.sample(recorder)
        time.sleep(0.01)
    tree.close()
    watch_own_process(recorder, 0.0)
    recorder.close()

    decoded = decode((tmp_path / "p.0000.frames").read_bytes())
    rows = [row for row in decoded.named(names.PROCESS_CPU_NS) if row["arg"] == os.getpid()]
    assert len(rows) > 10
    by_time = sorted(rows, key=lambda row: row["time_ns"])
    # A reading is made a moment before or after the time that it carries.
    for before, after in itertools.pairwise(by_time):
        assert after["value"] >= before["value"] or (
            after["time_ns"] - before["time_ns"] < 1_000_000
        )
