"""The host and the processes through psutil, where there is no /proc."""

from __future__ import annotations

import psutil

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["PortableHost", "PortableTree"]


class PortableHost:
    """The machine as psutil shows it."""

    def sample(self, recorder: Recorder) -> None:
        memory = psutil.virtual_memory()
        times = psutil.cpu_times()
        found = {
            names.HOST_CPU_COUNT: float(psutil.cpu_count() or 0),
            names.HOST_CPU_BUSY_NS: (sum(times) - times.idle - getattr(times, "iowait", 0.0)) * 1e9,
            names.HOST_MEMORY_TOTAL_BYTES: float(memory.total),
            names.HOST_MEMORY_AVAILABLE_BYTES: float(memory.available),
        }
        disks = psutil.disk_io_counters()
        if disks is not None:
            found[names.HOST_DISK_READ_BYTES] = float(disks.read_bytes)
            found[names.HOST_DISK_WRITE_BYTES] = float(disks.write_bytes)
        network = psutil.net_io_counters()
        if network is not None:
            found[names.HOST_NET_RECEIVED_BYTES] = float(network.bytes_recv)
            found[names.HOST_NET_SENT_BYTES] = float(network.bytes_sent)
        for name, value in found.items():
            recorder.sample(recorder.intern(name), value)

    def close(self) -> None:
        """Nothing was opened."""


class PortableTree:
    """The processes at and below a pid as psutil shows them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def sample(self, recorder: Recorder) -> None:
        try:
            root = psutil.Process(self._pid)
            processes = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        for process in processes:
            try:
                self._sample(process, recorder)
            except psutil.Error:  # ended meanwhile, or not ours to see
                continue

    def _sample(self, process: psutil.Process, recorder: Recorder) -> None:
        with process.oneshot():
            cpu, switches = process.cpu_times(), process.num_ctx_switches()
            found = {
                names.PROCESS_CPU_NS: (cpu.user + cpu.system) * 1e9,
                names.PROCESS_SYSTEM_CPU_NS: cpu.system * 1e9,
                names.PROCESS_RSS_BYTES: float(process.memory_info().rss),
                names.PROCESS_THREADS: float(process.num_threads()),
                names.PROCESS_SWITCHES: float(switches.voluntary + switches.involuntary),
            }
        for name, value in found.items():
            recorder.sample(recorder.intern(name), value, process.pid)

    def close(self) -> None:
        """Nothing was opened."""
