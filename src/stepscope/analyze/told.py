"""What a process itself tells of: losses, metrics, collections, the machine's speed, losses of
events."""

from __future__ import annotations

from statistics import median

from stepscope.model import names
from stepscope.model.event import Batch
from stepscope.model.watching import Reading

__all__ = ["PROGRAM_NAMES", "ProgramReadings"]

_FEW_SPEEDS = 4  # readings of a batch that are told one by one; of more, their median
_LOST = frozenset({names.OWN_DROPPED, names.OWN_LOST})
PROGRAM_NAMES = frozenset({names.LOSS, names.METRIC, names.GC, names.REFERENCE_NS, *_LOST})


class ProgramReadings:
    """`update` with every batch of one process, in order."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lost = dict.fromkeys(_LOST, 0.0)

    @property
    def lost(self) -> float:
        """Events of this process, so far."""
        return sum(self._lost.values())

    def update(self, batch: Batch) -> list[Reading]:
        columns, rank = batch.columns, self._rank
        found: list[Reading] = []
        pause: Reading | None = None  # the longest
        speeds: list[Reading] = []
        for name, place in batch.places(PROGRAM_NAMES):
            time_ns, value = columns["time_ns"][place], columns["value"][place]
            if name == names.GC:
                pause_s = columns["duration_ns"][place] / 1e9
                if pause is None or pause_s > pause.value:
                    pause = Reading(time_ns, "gc_pause_seconds", pause_s, rank=rank)
            elif name == names.REFERENCE_NS:
                speeds.append(Reading(time_ns, "reference_seconds", value / 1e9, rank=rank))
            elif name in _LOST:
                self._lost[name] = value
            else:
                metric, step = "loss", columns["step"][place]
                if name == names.METRIC:
                    metric, own_step = batch.names[columns["text"][place]], columns["arg"][place]
                    step = step if own_step < 0 else own_step
                found.append(Reading(time_ns, metric, value, rank=rank, step=step))
        if len(speeds) > _FEW_SPEEDS:
            middle = median(reading.value for reading in speeds)
            speeds = [speeds[-1]._replace(value=middle)]
        found += speeds
        return found if pause is None else [*found, pause]
