"""How many CPUs a process may use: its affinity and the quotas of its control groups."""

from __future__ import annotations

import os

from stepscope.collect.proc import read_once

__all__ = ["allowed_cpus", "usable_cpus"]


def usable_cpus(pid: int, proc: str = "/proc", sys: str = "/sys") -> float:
    """CPUs that `pid` may use, quota included: 1.5 is one and a half. 0.0: unknown."""
    allowed = float(len(allowed_cpus(pid)))
    quotas = _quotas(read_once(f"{proc}/{pid}/cgroup") or "", f"{sys}/fs/cgroup")
    return min([allowed, *quotas])


def allowed_cpus(pid: int) -> set[int]:
    """The numbers of the CPUs that `pid` may run on; empty: unknown."""
    try:
        return os.sched_getaffinity(pid)
    except (AttributeError, OSError):
        return set(range(os.cpu_count() or 0))


def _quotas(groups: str, root: str) -> list[float]:
    """The quota of each control group from the process's own up to the root, both versions."""
    found = []
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += [_quota_v2(f"{root}{folder}") for folder in _upwards(path)]
        elif "cpu" in controllers.split(","):
            found += [_quota_v1(f"{root}/{controllers}{folder}") for folder in _upwards(path)]
    return [quota for quota in found if quota is not None]


def _upwards(path: str) -> list[str]:
    """ "/a/b" → "/a/b", "/a", "": in a container the path may not exist, its root always does."""
    parts = [part for part in path.split("/") if part]
    return ["".join(f"/{part}" for part in parts[:end]) for end in range(len(parts), -1, -1)]


def _quota_v2(folder: str) -> float | None:
    words = (read_once(f"{folder}/cpu.max") or "").split()  # "150000 100000" or "max 100000"
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(folder: str) -> float | None:
    quota = read_once(f"{folder}/cpu.cfs_quota_us")
    period = read_once(f"{folder}/cpu.cfs_period_us")
    if not quota or not period or int(quota) <= 0:  # -1: none
        return None
    return int(quota) / int(period)
