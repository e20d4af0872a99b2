"""How long each step of a run took, in bounded memory."""

from __future__ import annotations

from array import array

__all__ = ["Durations"]

MOST = 200_000  # that are kept: all of them in most runs
_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


class Durations:
    """`update` with each step; `sample` at any time.

    Up to MOST steps it holds them all. After that it holds one of every two that follow each other,
    of every four, … and which one is left to chance: what comes round every so many steps (a log
    line, a save) is neither always among them nor never.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept = array("q")
        self._every = 1  # one of so many is kept
        self._first = self._shortest = self._longest = -1
        self._place = self._wanted = 0  # in the group that is under way; which one is kept
        self._random = 12345

    def update(self, duration_ns: int) -> None:
        if not self.count:
            self._first = self._shortest = self._longest = duration_ns
        self.count += 1
        self._shortest = min(self._shortest, duration_ns)
        self._longest = max(self._longest, duration_ns)
        if self._place == self._wanted:
            self._kept.append(duration_ns)
        self._place += 1
        if self._place == self._every:
            self._place, self._wanted = 0, self._chance(self._every)
            if len(self._kept) >= MOST:
                self._thin()

    def sample(self) -> array[int]:
        """In their order; the first, the shortest and the longest step are always among them."""
        if self._every == 1:
            return self._kept[:]
        ends = array("q", sorted({self._shortest, self._longest}))
        return array("q", [self._first]) + self._kept + ends

    def copy(self) -> Durations:
        made = Durations()
        made.__dict__.update(self.__dict__)
        made._kept = self._kept[:]
        return made

    def _thin(self) -> None:
        kept = self._kept
        pairs = range(0, len(kept) - 1, 2)
        self._kept = array("q", (kept[at + self._chance(2)] for at in pairs))
        self._every *= 2
        self._wanted = self._chance(self._every)

    def _chance(self, below: int) -> int:
        """A number from 0 on; the same ones in each run of the analysis."""
        self._random = (self._random * _MULTIPLIER + _INCREMENT) & _MASK
        return (self._random >> 33) * below >> 31
