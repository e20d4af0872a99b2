"""Where a metric is of late, and since when that is beyond a limit."""

from __future__ import annotations

from typing import Final

from stepscope.model.watching import Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.recent import Recent

__all__ = ["Level"]

_FEWEST: Final = 3  # readings, before the limit is looked at


class Level:
    """The mean of the last readings, whose limits the gate has: one reading beyond is no state."""

    def __init__(self, window_s: float, gate: Gate) -> None:
        self._recent = Recent(window_s)
        self._gate = gate

    def update(self, reading: Reading) -> None:
        self._recent.update(reading.time_ns, reading.value)
        if self._recent.count >= _FEWEST:
            self._gate.update(reading.time_ns, self._recent.mean or 0.0)

    @property
    def mean(self) -> float | None:
        """None: nothing was read yet."""
        return self._recent.mean

    @property
    def is_beyond(self) -> bool:
        return self._gate.is_open

    @property
    def began_ns(self) -> int | None:
        """Since when it is beyond the limit; None: it is not."""
        return self._gate.began_ns
