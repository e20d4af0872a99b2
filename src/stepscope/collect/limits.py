"""What sets the end to this process's memory, and how much counts against it."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

from stepscope.collect.proc import KeptFile, read_once

__all__ = ["MemoryUse", "OwnLimits"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CGROUPS = Path("/sys/fs/cgroup")


class MemoryUse(NamedTuple):
    """kind: "RLIMIT_AS", "RLIMIT_DATA", "cgroup" or "host". used_bytes: as the limit counts."""

    kind: str
    limit_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        return self.limit_bytes - self.used_bytes


class OwnLimits:
    """Of this process. Limits are asked for each time: a program may set its own."""

    def __init__(self) -> None:
        self._statm = KeptFile("/proc/self/statm")
        self._meminfo = KeptFile("/proc/meminfo")
        self._cgroup = _own_cgroup()

    def pages(self) -> tuple[int, int, int] | None:
        """(virtual, resident, of that shared with others or files), in bytes."""
        text = self._statm.read(128)
        if not text:
            return None
        fields = [int(field) * _PAGE_BYTES for field in text.split()[:3]]
        return fields[0], fields[1], fields[2]

    def nearest(self) -> MemoryUse | None:
        """The limit with the least left under it; None: none can be read."""
        known = [use for use in (*self._rlimits(), self._of_cgroup(), self._of_host()) if use]
        return min(known, key=lambda use: use.left_bytes) if known else None

    def _rlimits(self) -> list[MemoryUse]:
        text = self._statm.read(128)
        if not text:
            return []
        fields = [int(field) * _PAGE_BYTES for field in text.split()]
        found = []
        for kind, used_bytes in (("RLIMIT_AS", fields[0]), ("RLIMIT_DATA", fields[5])):
            limit_bytes, _ = resource.getrlimit(getattr(resource, kind))
            if limit_bytes != resource.RLIM_INFINITY:
                found.append(MemoryUse(kind, limit_bytes, used_bytes))
        return found

    def _of_cgroup(self) -> MemoryUse | None:
        if self._cgroup is None:
            return None
        limit, used = read_once(str(self._cgroup / "memory.max")), ""
        if limit and limit.strip().isdigit():
            used = read_once(str(self._cgroup / "memory.current")) or ""
        if not used.strip().isdigit():
            return None
        stat = (read_once(str(self._cgroup / "memory.stat")) or "").split()
        # Files that nobody uses any more are counted, and given up before anybody is killed.
        idle = int(stat[stat.index("inactive_file") + 1]) if "inactive_file" in stat else 0
        return MemoryUse("cgroup", int(limit or 0), int(used) - idle)

    def _of_host(self) -> MemoryUse | None:
        text = self._meminfo.read(4096)
        total, available = _kib(text, b"MemTotal:"), _kib(text, b"MemAvailable:")
        if total is None or available is None:
            return None
        return MemoryUse("host", total, total - available)

    def close(self) -> None:
        self._statm.close()
        self._meminfo.close()


def _kib(text: bytes | None, key: bytes) -> int | None:
    if not text or key not in text:
        return None
    at = text.index(key) + len(key)
    return int(text[at : at + 24].split()[0]) * 1024


def _own_cgroup() -> Path | None:
    """The closest folder upwards that has a limit; None: no cgroup (v2) limits this process."""
    for line in (read_once("/proc/self/cgroup") or "").splitlines():
        hierarchy, _, path = line.split(":", 2)
        if hierarchy != "0":
            continue
        folder = _CGROUPS / path.lstrip("/")
        for one in (folder, *folder.parents):
            limit = read_once(str(one / "memory.max"))
            if limit and limit.strip().isdigit():
                return one
            if one == _CGROUPS:
                break
    return None
