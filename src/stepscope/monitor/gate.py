"""A switch with two limits: what moves about one of them does not flicker."""

from __future__ import annotations

__all__ = ["Gate"]


class Gate:
    """Opens at `enter` and closes beyond `leave`, which lies on the other side of it.

    enter > leave: open while values are high; enter < leave: while they are low.

    >>> gate = Gate(enter=0.9, leave=0.8)
    >>> [gate.update(time, value) for time, value in enumerate([0.85, 0.95, 0.85, 0.79])]
    [False, True, True, False]
    """

    def __init__(self, enter: float, leave: float) -> None:
        self.enter, self.leave = enter, leave
        self.began_ns: int | None = None  # None: it is closed

    @property
    def is_open(self) -> bool:
        return self.began_ns is not None

    def update(self, time_ns: int, value: float) -> bool:
        limit = self.leave if self.is_open else self.enter
        beyond = value >= limit if self.enter >= self.leave else value <= limit
        if not beyond:
            self.began_ns = None
        elif self.began_ns is None:
            self.began_ns = time_ns
        return beyond
