"""CheckpointMonitor: tells when checkpoints hold too much memory or recomputing takes too long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import (
    MemoryThresholdExceeded,
    RecomputationThresholdExceeded,
)
from stepscope.profilers.checkpoints import CheckpointProfiler
from stepscope.profilers.closing import Closing
from stepscope.session.checkpoints import failed
from stepscope.session.exceeding import Exceeding
from stepscope.session.ticking import Ticking

__all__ = ["CheckpointMonitor"]

_GIB = 1 << 30
_HELD, _AGAIN = "checkpoint_bytes", "recompute_milliseconds"  # metrics, as rules know them
_T = TypeVar("_T")


class CheckpointMonitor(Closing):
    """Looks at a profiler every `monitor_interval_ms`; calls back while a threshold is exceeded.

    Append functions that take (monitor, what was exceeded) to `memory_threshold_exceeded` and
    `recomputation_threshold_exceeded`; they are called from the monitor's thread. Memory is what
    checkpoints hold now, and not, as in the source document, the sum of all that were ever made.
    Recomputation is all of it since profiling was started. The threshold itself is not exceeded.
    """

    def __init__(
        self,
        profiler: CheckpointProfiler,
        memory_threshold_bytes: int = _GIB,
        recompute_threshold_ms: float = 1000,
        monitor_interval_ms: float = 1000,
    ) -> None:
        if not isinstance(profiler, CheckpointProfiler):
            raise UsageError(f"profiler={profiler!r} is not possible: pass a CheckpointProfiler.")
        _check("memory_threshold_bytes", memory_threshold_bytes, 0)
        _check("recompute_threshold_ms", recompute_threshold_ms, 0)
        _check("monitor_interval_ms", monitor_interval_ms, 1)
        self._profiler = profiler
        self._memory_bytes, self._recompute_ms = memory_threshold_bytes, recompute_threshold_ms
        self._exceeding = Exceeding({_HELD: memory_threshold_bytes, _AGAIN: recompute_threshold_ms})
        self.memory_threshold_exceeded: list[
            Callable[[CheckpointMonitor, MemoryThresholdExceeded], object]
        ] = []
        self.recomputation_threshold_exceeded: list[
            Callable[[CheckpointMonitor, RecomputationThresholdExceeded], object]
        ] = []
        self._timer = Ticking(
            self.check_thresholds, monitor_interval_ms / 1000, "stepscope-checkpoint-monitor"
        )
        self._timer.start(self._left_behind)

    def close(self) -> None:
        """It does not look any more. Again: nothing happens."""
        self._timer.stop()

    def check_thresholds(self) -> None:
        """Look now. An error in a callback is recorded, and the others are called all the same."""
        use, now = self._profiler.use(), datetime.now(UTC)
        figures = {_HELD: float(use.in_use_bytes), _AGAIN: use.recompute_ms}
        found = self._exceeding.update(time.monotonic_ns(), figures)
        if _HELD in found:
            exceeded = MemoryThresholdExceeded(use.in_use_bytes, self._memory_bytes, now)
            self._tell(self.memory_threshold_exceeded, exceeded)
        if _AGAIN in found:
            too_long = RecomputationThresholdExceeded(use.recompute_ms, self._recompute_ms, now)
            self._tell(self.recomputation_threshold_exceeded, too_long)

    def _tell(self, callbacks: list[Callable[[CheckpointMonitor, _T], object]], what: _T) -> None:
        for callback in list(callbacks):
            try:
                callback(self, what)
            except Exception as error:  # noqa: BLE001 - somebody else's code
                failed("a callback of CheckpointMonitor", error)

    def _left_behind(self) -> None:
        """A forked child is not watched: what it does there is not what was to be watched."""


def _check(name: str, value: Any, least: int) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value < math.inf:
        raise UsageError(f"{name}={value!r} is not possible: use a number of {least} or more.")
