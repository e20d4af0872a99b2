"""The processes at and below a pid → samples (Linux)."""

from __future__ import annotations

import os
import time

from stepscope.collect.proc import KeptFile, read_once
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["ProcessTree"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROCESSES_LIMIT = 256
_TASKS_LIMIT = 64  # threads of a process whose run delay is read
_THOROUGH_EVERY = 10  # samples between two looks for threads and for the children of all threads

# Fields of /proc/pid/stat, counted after the command (which may hold spaces and brackets).
_RSS_FIELD = 21
_STAT = (
    (names.PROCESS_MINOR_FAULTS, 7, 1),
    (names.PROCESS_MAJOR_FAULTS, 9, 1),
    (names.PROCESS_THREADS, 17, 1),
    (names.PROCESS_RSS_BYTES, _RSS_FIELD, _PAGE_BYTES),
)
_IO = (
    (names.PROCESS_READ_CHARS, b"rchar: "),
    (names.PROCESS_READ_BYTES, b"\nread_bytes: "),
    (names.PROCESS_WRITE_BYTES, b"\nwrite_bytes: "),
)


class ProcessTree:
    """Samples every process at and below `pid`; what cannot be read of one is not sampled."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self._proc = proc
        self._known = {pid: _Process(pid, proc)}
        self._round = 0
        # Without delay accounting the kernel shows zeros here, which are no measurement.
        self._has_delays = read_once(f"{proc}/sys/kernel/task_delayacct") == "1\n"

    def sample(self, recorder: Recorder) -> None:
        thorough = self._round % _THOROUGH_EVERY == 0
        self._round += 1
        waiting = list(self._known.values())[::-1]  # parents first: what they show is the older
        while waiting:
            process = waiting.pop()
            if process.sample(recorder, thorough, self._has_delays):
                waiting += self._new_among(process.children(thorough))
            else:
                process.close()
                del self._known[process.pid]

    def glance(self, recorder: Recorder) -> None:
        """CPU time and memory of the processes that are known, without this one, which is cheaper
        to ask directly (own_memory.py)."""
        own = os.getpid()
        for process in list(self._known.values()):
            if process.pid != own and not process.glance(recorder):
                process.close()
                del self._known[process.pid]

    def _new_among(self, pids: list[int]) -> list[_Process]:
        room = _PROCESSES_LIMIT - len(self._known)
        new = [pid for pid in pids if pid not in self._known][:room]
        self._known.update((pid, _Process(pid, self._proc)) for pid in new)
        return [self._known[pid] for pid in new]

    def close(self) -> None:
        for process in self._known.values():
            process.close()
        self._known.clear()


class _Process:
    def __init__(self, pid: int, proc: str) -> None:
        self.pid = pid
        self._is_own = pid == os.getpid() and proc == "/proc"
        self._folder = f"{proc}/{pid}"
        self._stat = KeptFile(f"{self._folder}/stat")
        self._io = KeptFile(f"{self._folder}/io")
        self._status = KeptFile(f"{self._folder}/status")
        self._tasks: dict[str, _Task] = {}  # the main thread comes first
        self._threads = 0

    def sample(self, recorder: Recorder, thorough: bool, has_delays: bool) -> bool:
        """Record what can be read; False: the process is gone."""
        fields = self._read_stat()
        if not fields:
            return False
        sample, intern, pid = recorder.sample, recorder.intern, self.pid
        reaped_ticks = int(fields[13]) + int(fields[14])
        sample(intern(names.PROCESS_CPU_NS), self._cpu_ns(fields), pid)
        sample(intern(names.PROCESS_SYSTEM_CPU_NS), float(int(fields[12]) * _TICK_NS), pid)
        sample(intern(names.PROCESS_REAPED_CPU_NS), float(reaped_ticks * _TICK_NS), pid)
        for name, field, unit in _STAT:
            sample(intern(name), float(int(fields[field]) * unit), pid)
        if has_delays:
            sample(intern(names.PROCESS_BLOCKED_IO_NS), float(int(fields[39]) * _TICK_NS), pid)
        self._sample_io(recorder)
        self._sample_memory(recorder)
        self._sample_tasks(recorder, int(fields[17]), thorough)
        return True

    def glance(self, recorder: Recorder) -> bool:
        """The same, of CPU time and memory alone."""
        fields = self._read_stat()
        if not fields:
            return False
        sample, intern = recorder.sample, recorder.intern
        sample(intern(names.PROCESS_CPU_NS), self._cpu_ns(fields), self.pid)
        rss_bytes = float(int(fields[_RSS_FIELD]) * _PAGE_BYTES)
        sample(intern(names.PROCESS_RSS_BYTES), rss_bytes, self.pid)
        return True

    def _read_stat(self) -> list[bytes]:
        """Fields after the command; empty: it is gone, or has ended and waits to be collected, and
        has neither memory nor threads."""
        stat = self._stat.read()
        fields = stat[stat.rindex(b")") + 2 :].split() if stat else []
        return [] if fields and fields[0] in b"ZX" else fields

    def _cpu_ns(self, fields: list[bytes]) -> float:
        """Others are counted in ticks. Our own clock is finer, and is told between full samples
        too (own_memory.py): a counter must not run backwards between the two."""
        if self._is_own:
            return float(time.process_time_ns())
        return float((int(fields[11]) + int(fields[12])) * _TICK_NS)

    def _sample_io(self, recorder: Recorder) -> None:
        text = self._io.read()
        if text:
            for name, key in _IO:
                recorder.sample(recorder.intern(name), float(_number_after(text, key)), self.pid)

    def _sample_memory(self, recorder: Recorder) -> None:
        text = self._status.read()
        if text and b"VmHWM:" in text:
            peak_bytes = _number_after(text, b"VmHWM:") * 1024
            name = recorder.intern(names.PROCESS_PEAK_RSS_BYTES)
            recorder.sample(name, float(peak_bytes), self.pid)
        if text and b"RssShmem:" in text:
            shared_bytes = _number_after(text, b"RssShmem:") * 1024
            name = recorder.intern(names.PROCESS_SHARED_BYTES)
            recorder.sample(name, float(shared_bytes), self.pid)

    def _sample_tasks(self, recorder: Recorder, threads: int, thorough: bool) -> None:
        """Waiting for a CPU, and switches: sums over threads, those that ended included."""
        if thorough or threads != self._threads:
            self._threads = threads
            self._find_tasks()
        delay_ns = switches = 0
        readable = False
        for task in self._tasks.values():
            readable = task.read() or readable
            delay_ns += task.delay_ns
            switches += task.switches
        if readable:
            sample, intern = recorder.sample, recorder.intern
            sample(intern(names.PROCESS_RUN_DELAY_NS), float(delay_ns), self.pid)
            main = self._tasks.get(str(self.pid))
            if main is not None:
                sample(intern(names.PROCESS_MAIN_DELAY_NS), float(main.delay_ns), self.pid)
            sample(intern(names.PROCESS_SWITCHES), float(switches), self.pid)

    def _find_tasks(self) -> None:
        try:
            found = os.listdir(f"{self._folder}/task")  # noqa: PTH208
        except OSError:
            return
        for name in found:
            if name not in self._tasks and len(self._tasks) < _TASKS_LIMIT:
                self._tasks[name] = _Task(f"{self._folder}/task/{name}")

    def children(self, thorough: bool) -> list[int]:
        """Those that the main thread started; all threads are asked now and then."""
        tasks = list(self._tasks.values()) if thorough else list(self._tasks.values())[:1]
        return [pid for task in tasks for pid in task.children()]

    def close(self) -> None:
        for file in (self._stat, self._io, self._status):
            file.close()
        for task in self._tasks.values():
            task.close()


class _Task:
    """A thread. It keeps its last figures when it ends, so that sums never go down."""

    __slots__ = ("_children", "_schedstat", "delay_ns", "switches")

    def __init__(self, folder: str) -> None:
        self._schedstat = KeptFile(f"{folder}/schedstat")
        self._children = KeptFile(f"{folder}/children")
        self.delay_ns = self.switches = 0

    def read(self) -> bool:
        text = self._schedstat.read(128)
        if not text:
            return False
        _, delay, switches = text.split()
        self.delay_ns, self.switches = int(delay), int(switches)
        return True

    def children(self) -> list[int]:
        return [int(pid) for pid in (self._children.read() or b"").split()]

    def close(self) -> None:
        self._schedstat.close()
        self._children.close()


def _number_after(text: bytes, key: bytes) -> int:
    at = text.index(key) + len(key)
    return int(text[at : at + 24].split(None, 1)[0])
