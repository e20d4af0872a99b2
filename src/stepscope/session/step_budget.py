"""How many steps a monitor in a program looks at: all of them, or as many as it may cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["StepBudget"]

_SHARE_S: Final = 0.00006  # of one CPU where it samples every second, and in proportion, up to
_MOST: Final = 0.004
# To begin with: the first steps are all looked at. Not so many that rules would take these for what
# is usual, and what comes after for a loss of throughput.
_CREDIT_NS: Final = 6_000_000
_ROW_NS: Final = 15_000.0  # what an event takes, about; more where that was measured
_LONGEST_NS: Final = 19_000_000_000  # without a look at some: about every second time it is asked
_LEAST_ROWS: Final = 48  # events, or
_LEAST_STEPS: Final = 4  # so many steps' worth of them, are looked at in a row


class StepBudget:
    """Ask `rows` before each batch of events, and look at them within it: `with budget:`.

    interval_s: how often the process is sampled: who wants to know less often may cost less.
    cpu_ns: CPU time of this thread so far. now_ns: the clock.
    """

    def __init__(
        self,
        interval_s: float,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._share = min(_MOST, _SHARE_S / interval_s)
        self._cpu_ns, self._now_ns = cpu_ns, now_ns
        self._start_ns = self._last_ns = now_ns()
        self._spent_ns = self._began_ns = 0
        self._rows = self._wanted = 0  # that were looked at, and that are now

    def rows(self, count: int, rows_per_step: float) -> int:
        """How many of the first events of a batch to look at."""
        now_ns = self._now_ns()
        least = max(_LEAST_ROWS, round(_LEAST_STEPS * rows_per_step))
        left_ns = _CREDIT_NS + self._share * (now_ns - self._start_ns) - self._spent_ns
        wanted = min(count, round(left_ns / self._row_ns))
        if wanted < min(least, count):  # it saves up, but not for ever
            wanted = min(least, count) if now_ns - self._last_ns >= _LONGEST_NS else 0
        if wanted:
            self._last_ns, self._wanted = now_ns, wanted
        return wanted

    @property
    def _row_ns(self) -> float:
        return max(_ROW_NS, self._spent_ns / self._rows) if self._rows else _ROW_NS

    def __enter__(self) -> None:
        self._began_ns = self._cpu_ns()

    def __exit__(self, *_: object) -> None:
        self._spent_ns += self._cpu_ns() - self._began_ns
        self._rows += self._wanted
        self._wanted = 0
