"""How much others used the machine while a program of ours ran."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Load", "LoadWatch"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Load(NamedTuple):
    """foreign_cores: CPUs that others kept busy, or that the host took away. pressure: share of the
    time in which something ready had no CPU; None: the kernel does not tell."""

    foreign_cores: float
    pressure: float | None


class _Reading(NamedTuple):
    at_s: float
    busy_s: float  # of all CPUs
    own_s: float  # of our children that have ended
    waited_s: float | None


class LoadWatch:
    """From when it is made to `load()`: by then our children have ended and been waited for."""

    def __init__(self) -> None:
        self._began = _read()

    def load(self) -> Load:
        ended = _read()
        took_s = max(1e-3, ended.at_s - self._began.at_s)
        own_s = ended.own_s - self._began.own_s
        foreign = (ended.busy_s - self._began.busy_s - own_s) / took_s
        pressure = None
        if ended.waited_s is not None and self._began.waited_s is not None:
            pressure = (ended.waited_s - self._began.waited_s) / took_s
        return Load(max(0.0, foreign), pressure)


def _read() -> _Reading:
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    us = resource.getrusage(resource.RUSAGE_SELF)
    own_s = own.ru_utime + own.ru_stime + us.ru_utime + us.ru_stime
    return _Reading(time.monotonic(), _busy_s(), own_s, _waited_s())


def _busy_s() -> float:
    """user, nice, system, irq, softirq and steal of all CPUs together."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    ticks = [int(field) for field in fields[:8]]
    return sum(ticks[at] for at in (0, 1, 2, 5, 6, 7) if at < len(ticks)) / _TICKS_PER_S


def _waited_s() -> float | None:
    try:
        line = Path("/proc/pressure/cpu").read_text().split("\n", 1)[0]
        return int(line.rsplit("total=", 1)[1]) / 1e6
    except (OSError, IndexError, ValueError):
        return None
