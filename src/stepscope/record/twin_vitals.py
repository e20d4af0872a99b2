"""The twin's samples of this process, taken by the thread that writes."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.record.twin import TwinCore

__all__ = ["TwinVitals"]

_NEVER_NS = 1 << 62
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class TwinVitals:
    """What this process holds and the CPU time that it took, at even distances."""

    def __init__(self, core: TwinCore) -> None:
        self._core = core
        self.forget()

    def forget(self) -> None:
        """In a forked child: whoever watched, watched the parent."""
        self._rss = self._cpu = self.interval_ns = 0
        self.due_ns = _NEVER_NS

    def watch(self, rss: int, cpu: int, interval_ns: int) -> None:
        if interval_ns < 0:
            raise ValueError("an interval is not negative")
        self._rss, self._cpu = rss, cpu
        if interval_ns != self.interval_ns:
            self.due_ns = self._core.now_ns() + interval_ns if interval_ns else _NEVER_NS
        self.interval_ns = interval_ns

    def sample(self, now_ns: int) -> None:
        """If one is due."""
        interval_ns = self.interval_ns
        if not interval_ns or now_ns < self.due_ns:
            return
        # At even distances, but for a machine that stood still: nothing is made up for.
        next_ns = self.due_ns + interval_ns
        self.due_ns = next_ns if next_ns > now_ns else now_ns + interval_ns
        pid, held_bytes = os.getpid(), _rss_bytes()
        if self._rss and held_bytes is not None:
            self._core.sample(self._rss, held_bytes, pid, pid)
        if self._cpu:
            self._core.sample(self._cpu, float(time.process_time_ns()), pid, pid)


def _rss_bytes() -> float | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 (no pathlib here)
            return float(int(file.read().split()[1]) * _PAGE_BYTES)
    except OSError:
        return None
