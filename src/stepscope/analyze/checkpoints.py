"""Which checkpoints a program has, from what was recorded of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stepscope.analyze.loop import Loop
from stepscope.analyze.user_code import named_function
from stepscope.model import names
from stepscope.model.checkpoint_details import CheckpointedLayer, Checkpointing
from stepscope.model.event import Batch
from stepscope.model.finding import Location
from stepscope.model.process import ProcessInfo

__all__ = ["OTHERS", "CheckpointFold"]

OTHERS = "(others)"  # layers beyond those that have a number
_WANTED = frozenset(
    (
        names.CHECKPOINT_LAYER,
        names.CHECKPOINT_AGAIN,
        names.CHECKPOINT_SAVED,
        names.CHECKPOINT_LEFT,
    )
)


class _Process:
    """What one process told, by the number of the layer."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[str, Location]] = {}
        self.calls: dict[int, int] = {}
        self.ns: dict[int, int] = {}
        self.saved: dict[int, list[float]] = {}  # sum and count
        self.left: tuple[float, str] | None = None

    def update(self, batch: Batch) -> None:
        for name, place in batch.places(_WANTED):
            self._take(name, place, batch)

    def _take(self, name: str, place: int, batch: Batch) -> None:
        columns = batch.columns
        arg, value = columns["arg"][place], columns["value"][place]
        if name == names.CHECKPOINT_AGAIN:
            self.calls[arg] = self.calls.get(arg, 0) + 1
            self.ns[arg] = self.ns.get(arg, 0) + columns["duration_ns"][place]
        elif name == names.CHECKPOINT_SAVED:
            total = self.saved.setdefault(arg, [0.0, 0.0])
            total[0] += value
            total[1] += 1
        else:
            text = batch.names.get(columns["text"][place], "")
            if name == names.CHECKPOINT_LAYER:
                self.places[arg] = _read(text)
            elif self.left is None or value < self.left[0]:
                self.left = (value, text)

    def layers(self, steps: int) -> list[CheckpointedLayer]:
        found = []
        for number, ns in self.ns.items():
            layer, location = self.places.get(number, (OTHERS, Location()))
            total, count = self.saved.get(number, (0.0, 0.0))
            saved = total / count if count else None
            calls = self.calls[number] / steps
            found.append(CheckpointedLayer(layer, location, calls, ns / 1e6 / steps, saved))
        return sorted(found, key=_worth)


class CheckpointFold:
    """`update` with every batch of every process; `get` at any time."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int, int], _Process] = {}

    def update(self, process: ProcessInfo, batch: Batch) -> None:
        if next(batch.places(_WANTED), None) is not None:
            key = (process.rank, process.pid)
            self._processes.setdefault(key, _Process()).update(batch)

    def get(self, loops: Sequence[Loop]) -> Checkpointing | None:
        """Of the first rank that recomputes; None: none does."""
        for loop in sorted(loops, key=lambda loop: loop.rank):
            process = self._processes.get((loop.rank, loop.pid))
            if process is not None and process.ns and loop.steps and loop.wall_ns:
                return _checkpointing(process, loop)
        return None


def _checkpointing(process: _Process, loop: Loop) -> Checkpointing:
    layers = process.layers(loop.steps)
    known = [layer.saved_bytes for layer in layers if layer.saved_bytes is not None]
    left, limit = process.left or (None, None)
    return Checkpointing(
        layers=tuple(layers),
        recompute_ms=sum(layer.recompute_ms for layer in layers),
        share=min(1.0, sum(process.ns.values()) / loop.wall_ns),
        steps=loop.steps,
        saved_bytes=sum(known) if len(known) == len(layers) else None,
        left_bytes=left,
        limit=limit,
    )


def _worth(layer: CheckpointedLayer) -> tuple[bool, float, float]:
    """The least bytes for a millisecond first; those that are not known last."""
    worth = layer.bytes_per_ms
    return worth is None, worth or 0.0, -layer.recompute_ms


def _read(text: str) -> tuple[str, Location]:
    """A mark that cannot be read is from another version."""
    try:
        told = json.loads(text)
        layer, file, line = str(told["layer"]), told.get("file"), told.get("line")
    except (ValueError, TypeError, KeyError, AttributeError):
        return OTHERS, Location()
    if not isinstance(file, str) or not isinstance(line, int):
        return layer, Location()
    return layer, Location(file, line, named_function(str(told.get("function") or "")) or None)
