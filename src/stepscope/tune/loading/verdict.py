"""What was found out about a loader's dataset, known to all its workers and told once."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.tune.injection import Told
from stepscope.tune.loading.board import Board
from stepscope.tune.loading.feeds import Feed

__all__ = ["Verdict", "is_refused"]

_WORD = 0  # its place on the board
_UNKNOWN, _REFUSED, _APPLIED = 0, 1, 2


def is_refused(board: Board) -> bool:
    """Whether a change was refused in one of the processes that see this board."""
    return board[_WORD] == _REFUSED


class Verdict:
    """Whether a change is made to a loader. Refused: for good, in later iterations too.

    The places of `board` from 1 on are the change's own.
    """

    def __init__(self, told: Told, feed: Feed) -> None:
        self._told, self._feed = told, feed
        self.board = feed.board

    @property
    def refused(self) -> bool:
        return is_refused(self.board)

    @property
    def applied(self) -> bool:
        return self.board[_WORD] == _APPLIED

    def refused_for(self, why_not: Callable[[], str]) -> bool:
        """Whether it is refused: before, or now because of what `why_not()` says; "": nothing."""
        if self.refused:
            return True
        reason = why_not()
        if reason:
            self.refuse(reason)
        return bool(reason)

    def apply(self, what: str) -> None:
        if self.board[_WORD] == _UNKNOWN:
            self.board[_WORD] = _APPLIED
            self._told.applied(what, self._feed.site)

    def refuse(self, why: str) -> None:
        if not self.refused:
            self.board[_WORD] = _REFUSED
            self._told.refused(why, self._feed.site)
