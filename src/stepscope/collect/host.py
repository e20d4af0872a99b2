"""The machine as a whole → samples (Linux)."""

from __future__ import annotations

import os

from stepscope.collect.cpus import allowed_cpus, usable_cpus
from stepscope.collect.proc import KeptFile
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["Host"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own is
_ROOM = 1 << 16
_CPU_LINE_ROOM = 256  # of /proc/stat, one line for each CPU and one for all
_MEMINFO_ROOM = 256  # what is asked of it stands in its first three lines
_PRESSURE = (
    (names.HOST_PRESSURE_CPU_NS, "cpu"),
    (names.HOST_PRESSURE_IO_NS, "io"),
    (names.HOST_PRESSURE_MEMORY_NS, "memory"),
)
# Disks made of others, or of memory: counting them would count the same bytes twice.
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md")


class Host:
    """CPU, memory, disks, network and pressure. What this kernel does not show is not sampled."""

    def __init__(self, pid: int, proc: str = "/proc", sys: str = "/sys") -> None:
        self._cpus = usable_cpus(pid, proc, sys)
        self._allowed = allowed_cpus(pid)
        self._disks = _disks(f"{sys}/block")
        self._busy_ns: list[float] = []  # of each disk, when last read
        self._stat = KeptFile(f"{proc}/stat")
        self._memory = KeptFile(f"{proc}/meminfo")
        self._vmstat = KeptFile(f"{proc}/vmstat")
        self._diskstats = KeptFile(f"{proc}/diskstats")
        self._network = KeptFile(f"{proc}/net/dev")
        self._pressure = [(name, KeptFile(f"{proc}/pressure/{of}")) for name, of in _PRESSURE]

    def sample(self, recorder: Recorder) -> None:
        self._busy_ns = []
        self.glance(recorder)
        reads = (self._read_swap, self._read_disks, self._read_network, self._read_pressure)
        for read in reads:
            _record(recorder, read())
        for disk, busy_ns in enumerate(self._busy_ns):
            recorder.sample(recorder.intern(names.HOST_DISK_BUSY_NS), busy_ns, disk)

    def glance(self, recorder: Recorder) -> None:
        """CPUs and memory: what is read in two system calls."""
        if self._cpus:
            recorder.sample(recorder.intern(names.HOST_CPU_COUNT), self._cpus)
        _record(recorder, self._read_cpu())
        _record(recorder, self._read_memory())

    def close(self) -> None:
        files = (self._stat, self._memory, self._vmstat, self._diskstats, self._network)
        for file in (*files, *(file for _, file in self._pressure)):
            file.close()

    def _read_cpu(self) -> dict[str, float]:
        """The CPUs that the program may run on. Under a quota nobody can say how much of their busy
        time would have been the program's, so it is not sampled."""
        text = self._stat.read(_CPU_LINE_ROOM * (2 + max(self._allowed, default=0))) or b""
        busy = iowait = found = 0
        for line in text.splitlines():
            name, *fields = line.split()
            if name[:3] != b"cpu":
                break
            if name != b"cpu" and int(name[3:]) in self._allowed and len(fields) >= 8:
                user, nice, system, _idle, waited, irq, softirq, steal = map(int, fields[:8])
                busy += user + nice + system + irq + softirq + steal
                iowait += waited
                found += 1
        if not found:
            return {}
        rates = {names.HOST_CPU_IOWAIT_NS: float(iowait * _TICK_NS)}
        if self._cpus >= len(self._allowed):
            rates[names.HOST_CPU_BUSY_NS] = float(busy * _TICK_NS)
        return rates

    def _read_memory(self) -> dict[str, float]:
        found = {}
        text = self._memory.read(_MEMINFO_ROOM) or b""
        for name, key in (
            (names.HOST_MEMORY_TOTAL_BYTES, b"MemTotal:"),
            (names.HOST_MEMORY_AVAILABLE_BYTES, b"MemAvailable:"),
        ):
            if key in text:
                found[name] = float(int(text.split(key, 1)[1].split(None, 1)[0]) * 1024)
        return found

    def _read_swap(self) -> dict[str, float]:
        text = self._vmstat.read(_ROOM) or b""
        if b"\npswpin " not in text:
            return {}
        pages = text.split(b"\npswpin ", 1)[1].split(None, 1)[0]
        return {names.HOST_SWAP_IN_PAGES: float(pages)}

    def _read_disks(self) -> dict[str, float]:
        read = written = 0
        seen = False
        for line in (self._diskstats.read(_ROOM) or b"").splitlines():
            fields = line.split()
            if len(fields) > 9 and fields[2] in self._disks:
                seen = True
                read += int(fields[5])
                written += int(fields[9])
                if len(fields) > 12:
                    self._busy_ns.append(int(fields[12]) * 1e6)
        if not seen:
            return {}
        return {
            names.HOST_DISK_READ_BYTES: float(read * _SECTOR_BYTES),
            names.HOST_DISK_WRITE_BYTES: float(written * _SECTOR_BYTES),
        }

    def _read_network(self) -> dict[str, float]:
        received = sent = 0
        seen = False
        for line in (self._network.read(_ROOM) or b"").splitlines()[2:]:
            card, _, numbers = line.partition(b":")
            if card.strip() == b"lo":
                continue
            seen = True
            fields = numbers.split()
            received += int(fields[0])
            sent += int(fields[8])
        if not seen:
            return {}
        return {
            names.HOST_NET_RECEIVED_BYTES: float(received),
            names.HOST_NET_SENT_BYTES: float(sent),
        }

    def _read_pressure(self) -> dict[str, float]:
        found = {}
        for name, file in self._pressure:
            text = file.read(256)
            if text and text.startswith(b"some ") and b"total=" in text:
                total_us = int(text.split(b"total=", 1)[1].split(None, 1)[0])
                found[name] = total_us * 1000.0
        return found


def _record(recorder: Recorder, found: dict[str, float]) -> None:
    for name, value in found.items():
        recorder.sample(recorder.intern(name), value)


def _disks(folder: str) -> frozenset[bytes]:
    try:
        found = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return frozenset()
    return frozenset(disk.encode() for disk in found if not disk.startswith(_NOT_DISKS))
