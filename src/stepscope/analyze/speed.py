"""How fast the machine was during a run, from a piece of work that is always the same."""

from __future__ import annotations

from array import array

from stepscope.model import names
from stepscope.model.event import Batch

__all__ = ["SpeedFold"]

MOST = 16_384  # readings that are kept


class SpeedFold:
    """`update` with every batch of a process; `readings_ns` at any time, in bounded memory."""

    def __init__(self) -> None:
        self.readings_ns = array("d")
        self._every = 1
        self._seen = 0

    def update(self, batch: Batch) -> None:
        values = batch.columns["value"]
        for _, place in batch.places((names.REFERENCE_NS,)):
            self._seen += 1
            if self._seen % self._every == 0:
                self.readings_ns.append(values[place])
        if len(self.readings_ns) > MOST:
            self.readings_ns = self.readings_ns[1::2]
            self._every *= 2
