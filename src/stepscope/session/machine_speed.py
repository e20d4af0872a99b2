"""How fast the machine was lately, from the piece of work that is always the same."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

from stepscope.model.watching import Reading, StepSeen

__all__ = ["MachineSpeed"]

_KEPT: Final = 300  # readings of a rank, one a second
_FEWEST: Final = 3  # on either side


class MachineSpeed:
    """A listener of session/feeding.py."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[tuple[int, float]]] = {}  # by rank

    def step(self, seen: StepSeen) -> None:
        """Steps differ by themselves: they tell nothing of the machine."""

    def reading(self, reading: Reading) -> None:
        if reading.metric == "reference_seconds":
            kept = self._seen.setdefault(reading.rank, deque(maxlen=_KEPT))
            kept.append((reading.time_ns, reading.value))

    def ratio(self, rank: int, since_ns: int) -> float | None:
        """How much longer that work takes since then than it took before (1.2: a fifth longer);
        None: it was read too few times to tell."""
        seen = self._seen.get(rank, ())
        before = [value for time_ns, value in seen if time_ns < since_ns]
        after = [value for time_ns, value in seen if time_ns >= since_ns]
        if len(before) < _FEWEST or len(after) < _FEWEST:
            return None
        return median(after) / median(before)
