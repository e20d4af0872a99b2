"""A clock that stands still while the program is suspended."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

__all__ = ["ActiveTime"]

_MOST_PAUSES: Final = 256  # told apart when times are asked for in the past


class _Pause(NamedTuple):
    from_ns: int
    to_ns: int
    before_ns: int  # all pauses before it


class ActiveTime:
    """Times of the monotonic clock, without pauses.

    >>> clock = ActiveTime()
    >>> clock.pause(100, 150)
    >>> clock.active(90), clock.active(120), clock.active(160), clock.real(110)
    (90, 100, 110, 160)
    """

    def __init__(self) -> None:
        self._pauses: deque[_Pause] = deque(maxlen=_MOST_PAUSES)
        self._latest_ns = 0

    def pause(self, from_ns: int, to_ns: int) -> None:
        """What was asked about already stays as it is: of a pause told late, the rest counts."""
        from_ns = max(from_ns, self._latest_ns)
        if to_ns > from_ns:
            self._pauses.append(_Pause(from_ns, to_ns, self._paused_ns()))
            self._latest_ns = to_ns

    def active(self, time_ns: int) -> int:
        if time_ns > self._latest_ns:
            self._latest_ns = time_ns
        if not self._pauses:
            return time_ns
        for pause in reversed(self._pauses):
            if time_ns >= pause.to_ns:
                return time_ns - pause.before_ns - (pause.to_ns - pause.from_ns)
            if time_ns >= pause.from_ns:
                return pause.from_ns - pause.before_ns
        return time_ns - self._pauses[0].before_ns

    def real(self, active_ns: int) -> int:
        """The time of the monotonic clock again; the later one where a pause lies there."""
        for pause in reversed(self._pauses):
            if active_ns >= pause.from_ns - pause.before_ns:
                return active_ns + pause.before_ns + (pause.to_ns - pause.from_ns)
        return active_ns + (self._pauses[0].before_ns if self._pauses else 0)

    def _paused_ns(self) -> int:
        if not self._pauses:
            return 0
        last = self._pauses[-1]
        return last.before_ns + last.to_ns - last.from_ns
