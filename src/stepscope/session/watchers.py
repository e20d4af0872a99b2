"""Those who watch a program from inside it for days, and how often the sampler works for them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["Pace", "ReadBack", "Schedule", "Watcher", "pace_for"]

_TIDY_S = 1.0  # between two times that what was recorded is read back
# Where nothing but watchers wants it. Waking up is dear, what there is to do then is not:
_WATCHED_TICKS = 10  # samples of theirs, up to
_WATCHED_S = 10.0  # between two times that it is read back,
_FULL_S = 30.0  # that everything is sampled,
_THOROUGH_S = 60.0  # and that files of others are looked for


class Watcher(Protocol):
    """Wants to be asked every now and then, as long as it watches, whatever else goes on.

    interval_s: how often this process is sampled for it. look: what was recorded up to a moment ago
    has been given to the followers. Called by the sampler's thread.
    """

    @property
    def interval_s(self) -> float: ...
    def look(self) -> None: ...
    def after_fork(self) -> None: ...


class Pace(NamedTuple):
    """interval_s: between two samples that the sampler's thread takes. full_s: between two of
    everything; 0: each time. own_s: between two samples of this process, which the recorder takes;
    0: none, they are part of everything."""

    interval_s: float
    full_s: float = 0.0
    own_s: float = 0.0

    @property
    def read_back_s(self) -> float:
        """Between two times that what was recorded is read back."""
        if not self.own_s:
            return _TIDY_S
        return max(_TIDY_S, min(_WATCHED_S, _WATCHED_TICKS * self.own_s))


def pace_for(watchers: Sequence[Watcher], wanted_s: float | None) -> Pace | None:
    """wanted_s: what is measured at this moment wants everything that often; None: nothing is.
    None: there is nobody to sample for."""
    intervals_s = [watcher.interval_s for watcher in watchers]
    if wanted_s is not None:
        return Pace(min((*intervals_s, wanted_s)))
    if not intervals_s:
        return None
    pace = Pace(_WATCHED_S, _FULL_S, min(intervals_s))
    return pace._replace(interval_s=max(pace.own_s, pace.read_back_s))


class ReadBack(enum.Enum):
    NOT_YET = enum.auto()
    KNOWN_FILES = enum.auto()
    ALL_FILES = enum.auto()


class Schedule:
    """When what was recorded is read back."""

    def __init__(self) -> None:
        self._last_s = self._thorough_s = float("-inf")

    def due(self, now_s: float, pace: Pace) -> ReadBack:
        """Asked after each sample."""
        # What is due before half the time to the next sample is over is done now.
        if now_s - self._last_s < pace.read_back_s - pace.interval_s / 2:
            return ReadBack.NOT_YET
        self._last_s = now_s
        if pace.full_s and now_s - self._thorough_s < _THOROUGH_S:
            return ReadBack.KNOWN_FILES
        self._thorough_s = now_s
        return ReadBack.ALL_FILES
