"""Two runs of one program that take turns, a few steps each: the finest way to compare them.

On a shared machine the speed of a core drifts by several percent within seconds, and a run next to
another one no longer sees the same machine. Here both runs are alive at once and only one of them
works; a turn lasts a fraction of a second, and each is compared with the one right beside it.
"""

from __future__ import annotations

import os
import select
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["Player", "TurnsError", "play", "turn_ratios"]

ANSWER_S = 60.0


class TurnsError(Exception):
    """A run did not answer."""


class Player:
    """The pipes through which a run is given its turns. Make it before the run starts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("go", "done"):
            os.mkfifo(folder / name)
        # For reading and writing: opening does not wait for the other side.
        self._go = os.open(folder / "go", os.O_RDWR)
        self._done = os.open(folder / "done", os.O_RDWR)

    def turn(self, is_alive: Callable[[], bool]) -> None:
        """Let it work, until it gives back."""
        os.write(self._go, b".")
        waited_s = 0.0
        while not select.select([self._done], [], [], 0.5)[0]:
            waited_s += 0.5
            if waited_s > ANSWER_S or not is_alive():
                raise TurnsError("it did not get to its end")
        os.read(self._done, 1)

    def close(self) -> None:
        os.close(self._go)
        os.close(self._done)


def play(players: Sequence[Player], turns: int, is_alive: Callable[[], bool]) -> None:
    """All turns; who begins changes each time, so that being second costs nobody more."""
    for number in range(turns):
        for player in players if number % 2 == 0 else players[::-1]:
            player.turn(is_alive)


def turn_ratios(ours: Sequence[float], theirs: Sequence[float], steps: int) -> list[float]:
    """The median step of each turn against that of the turn beside it. The first turn warms up."""
    starts = range(steps, min(len(ours), len(theirs)), steps)
    return [
        statistics.median(ours[at : at + steps]) / statistics.median(theirs[at : at + steps])
        for at in starts
    ]
