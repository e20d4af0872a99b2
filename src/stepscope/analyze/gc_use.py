"""Garbage collections → how many, how long, and what is wrong with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from stepscope.model import names
from stepscope.model.event import Batch, Flag
from stepscope.model.memory import GcGeneration, GcUse

__all__ = ["Collection", "GcFold", "gc_patterns"]

# What makes collections a problem.
MOST_SHARE: Final = 0.01  # of the time
MOST_PAUSE_OF_STEP: Final = 0.1  # a single one, of a step
MOST_PAUSE_MS: Final = 1.0  # a single one, where steps are not known
MOST_FULL_SHARE: Final = 0.1  # full ones among all; left alone, Python does one in a hundred
LEAST_FULL: Final = 5  # fewer are no habit

FULL: Final = 2  # the oldest generation
_RECENT = 4096
_GENERATION = (1 << names.GC_GENERATION_BITS) - 1
_COLUMNS = ("name", "time_ns", "duration_ns", "arg", "value", "step", "track", "flags")
_WANTED = frozenset({names.GC, names.OPTIMIZER_STEP})


class Collection(NamedTuple):
    """One garbage collection."""

    start_ns: int
    duration_ns: int
    generation: int
    collected: int
    uncollectable: int
    step: int
    track: int


class _Sums:
    def __init__(self) -> None:
        self.count = self.total_ns = self.longest_ns = self.collected = self.uncollectable = 0

    def add(self, one: Collection) -> None:
        self.count += 1
        self.total_ns += one.duration_ns
        self.longest_ns = max(self.longest_ns, one.duration_ns)
        self.collected += one.collected
        self.uncollectable += one.uncollectable


class GcFold:
    """`update` with every batch of a process, in order; `get` at any time.

    start_ns, end_ns: collections that began outside of these do not count.
    """

    def __init__(self, start_ns: int = 0, end_ns: int = 1 << 62) -> None:
        self.start_ns, self.end_ns = start_ns, end_ns
        self.recent: deque[Collection] = deque(maxlen=_RECENT)
        self._generations: dict[int, _Sums] = {}
        self._steps = 0
        self._first_step_ns = self._last_step_ns = 0  # ends of optimizer steps
        self._in_steps_ns = self._since_step_ns = 0  # collecting, up to the last one and after it

    def update(self, batch: Batch) -> None:
        found = {
            number: name
            for number in set(batch.columns["name"].tolist())
            if (name := batch.names[number]) in _WANTED
        }
        if not found:
            return
        for row in zip(*(batch.columns[column].tolist() for column in _COLUMNS), strict=True):
            number, time_ns, duration_ns, *_, flags = row
            in_time = self.start_ns <= time_ns <= self.end_ns
            if number not in found or flags & Flag.OPEN or not in_time:
                continue
            if found[number] == names.GC:
                self._take(row[1:])
            elif not flags & Flag.FAILED:
                self._step_ended(time_ns + duration_ns)

    def _take(self, row: Sequence[float]) -> None:
        start_ns, duration_ns, arg, collected, step, track, _ = (int(value) for value in row)
        one = Collection(
            start_ns,
            duration_ns,
            arg & _GENERATION,
            collected,
            arg >> names.GC_GENERATION_BITS,
            step,
            track,
        )
        self.recent.append(one)
        self._since_step_ns += one.duration_ns if self._steps else 0
        self._generations.setdefault(one.generation, _Sums()).add(one)

    def _step_ended(self, end_ns: int) -> None:
        self._steps += 1
        self._in_steps_ns += self._since_step_ns
        self._since_step_ns = 0
        self._first_step_ns = self._first_step_ns or end_ns
        self._last_step_ns = max(self._last_step_ns, end_ns)

    @property
    def step_ns(self) -> float | None:
        """From the end of one optimizer step to that of the next, on average; None: not known."""
        if self._steps < 2:
            return None
        return (self._last_step_ns - self._first_step_ns) / (self._steps - 1)

    @property
    def step_share(self) -> float | None:
        """Of the time from the first optimizer step to the last; None: fewer than two were seen."""
        if self._steps < 2 or self._last_step_ns <= self._first_step_ns:
            return None
        return self._in_steps_ns / (self._last_step_ns - self._first_step_ns)

    @property
    def count(self) -> int:
        return sum(one.count for one in self._generations.values())

    @property
    def total_ns(self) -> int:
        return sum(one.total_ns for one in self._generations.values())

    def get(self, wall_ns: float | None = None, step_ns: float | None = None) -> GcUse:
        """`wall_ns`: the time that their share is of; None: that of the steps. `step_ns`: None: as
        it was seen here."""
        generations = tuple(
            GcGeneration(
                generation,
                sums.count,
                sums.total_ns / 1e6,
                sums.longest_ns / 1e6,
                sums.collected,
                sums.uncollectable,
            )
            for generation, sums in sorted(self._generations.items())
        )
        share = self.total_ns / wall_ns if wall_ns else self.step_share
        step_ms = step_ns if step_ns is not None else self.step_ns
        patterns = gc_patterns(generations, share, None if step_ms is None else step_ms / 1e6)
        return GcUse(generations, share, patterns)


def gc_patterns(
    generations: Sequence[GcGeneration], share: float | None, step_ms: float | None
) -> tuple[str, ...]:
    """What is wrong with them, in sentences; none: nothing is."""
    told = [
        _frequent(generations),
        _long(max((one.longest_ms for one in generations), default=0.0), step_ms),
        "" if share is None or share <= MOST_SHARE else
        f"Garbage collections take {share:.1%} of the time; more than {MOST_SHARE:.0%} is much.",
    ]  # fmt: skip
    return tuple(sentence for sentence in told if sentence)


def _frequent(generations: Sequence[GcGeneration]) -> str:
    count = sum(one.collections for one in generations)
    full = sum(one.collections for one in generations if one.generation == FULL)
    if full < LEAST_FULL or full <= MOST_FULL_SHARE * count:
        return ""
    return (
        f"Full collections are frequent: {full} of {count}; more than one in"
        f" {1 / MOST_FULL_SHARE:.0f} is much."
    )


def _long(longest_ms: float, step_ms: float | None) -> str:
    if not step_ms:
        if longest_ms <= MOST_PAUSE_MS:
            return ""
        return (
            f"Pauses are long: up to {longest_ms:.1f} ms; more than {MOST_PAUSE_MS:g} ms is much."
        )
    if longest_ms <= MOST_PAUSE_OF_STEP * step_ms:
        return ""
    return (
        f"Pauses are long: up to {longest_ms:.1f} ms, {longest_ms / step_ms:.0%} of a step; more"
        f" than {MOST_PAUSE_OF_STEP:.0%} is much."
    )
