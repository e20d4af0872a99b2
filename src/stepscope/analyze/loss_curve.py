"""The losses of a run, in order."""

from __future__ import annotations

from stepscope.analyze.samples import samples
from stepscope.model import names
from stepscope.model.event import Batch

__all__ = ["LossFold"]

_MOST = 200_000


class LossFold:
    """`update` with the batches of a process, in order."""

    def __init__(self) -> None:
        self._found: list[tuple[int, float]] = []

    def update(self, batch: Batch) -> None:
        if len(self._found) < _MOST:
            for time_ns, _, _, value in samples(batch, lambda name: name == names.LOSS):
                self._found.append((time_ns, value))

    def get(self) -> tuple[float, ...]:
        return tuple(value for _, value in sorted(self._found))
