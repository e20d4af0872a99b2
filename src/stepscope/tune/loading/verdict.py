"""What was found out about a loader's dataset, known to all its workers and told once."""

from __future__ import annotations

from stepscope.tune.injection import Told
from stepscope.tune.loading.feeds import Feed

__all__ = ["Verdict"]

_WORD = 0  # its place on the board
_UNKNOWN, _REFUSED, _APPLIED = 0, 1, 2


class Verdict:
    """Whether a change is made to a loader. Refused: for good, in later iterations too.

    The places of `board` from 1 on are the change's own.
    """

    def __init__(self, told: Told, feed: Feed) -> None:
        self._told, self._feed = told, feed
        self.board = feed.board

    @property
    def refused(self) -> bool:
        return self.board[_WORD] == _REFUSED

    @property
    def applied(self) -> bool:
        return self.board[_WORD] == _APPLIED

    def apply(self, what: str) -> None:
        if self.board[_WORD] == _UNKNOWN:
            self.board[_WORD] = _APPLIED
            self._told.applied(what, self._feed.site)

    def refuse(self, why: str) -> None:
        if not self.refused:
            self.board[_WORD] = _REFUSED
            self._told.refused(why, self._feed.site)
