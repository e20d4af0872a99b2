"""GCMonitor: what Python's garbage collections cost, and what is wrong with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from stepscope.model.memory import GcUse
from stepscope.profilers.closing import Closing
from stepscope.session.gc_watch import GcWatch

__all__ = ["GCMonitor"]


class GCMonitor(Closing):
    """Watches every collection between `start` and `stop`, or within a `with` block.

    All figures are of that time; while it goes on, up to now.
    """

    def __init__(self) -> None:
        self._watch = GcWatch()

    def start(self) -> None:
        """Begin to watch. Again: from now on."""
        self._watch.start()

    def stop(self) -> None:
        """End. The figures stay."""
        self._watch.stop()

    close = stop

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def is_running(self) -> bool:
        return self._watch.is_running

    def get_use(self) -> GcUse:
        """By generation, with the share of the time that was watched."""
        return self._watch.use()

    @property
    def count(self) -> int:
        """How many collections."""
        return self._watch.fold.count

    @property
    def total_time(self) -> timedelta:
        return timedelta(microseconds=self._watch.fold.total_ns / 1000)

    @property
    def count_by_generation(self) -> dict[int, int]:
        return {one.generation: one.collections for one in self.get_use().generations}

    @property
    def time_by_generation(self) -> dict[int, timedelta]:
        return {
            one.generation: timedelta(milliseconds=one.total_ms)
            for one in self.get_use().generations
        }

    @property
    def longest_pause(self) -> timedelta:
        longest = (one.longest_ms for one in self.get_use().generations)
        return timedelta(milliseconds=max(longest, default=0.0))

    @property
    def objects_collected(self) -> int:
        return sum(one.collected for one in self.get_use().generations)

    @property
    def objects_uncollectable(self) -> int:
        return sum(one.uncollectable for one in self.get_use().generations)

    @property
    def share(self) -> float:
        """Of the time that was watched. 0.02: two hundredths of it went into collecting."""
        return self.get_use().share or 0.0

    @property
    def step_share(self) -> float | None:
        """Of the time between optimizer steps; None: fewer than two were seen."""
        return self._watch.fold.step_share

    @property
    def patterns(self) -> tuple[str, ...]:
        """What is wrong, in sentences: frequent full collections, long pauses, too much time."""
        return self.get_use().patterns
