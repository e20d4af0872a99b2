"""The checkpoints that the program has by itself: which layers, and on or off."""

from __future__ import annotations

from stepscope.collect.checkpoints import CheckpointCall, door

__all__ = ["PresentCheckpoints"]


class PresentCheckpoints:
    """Listens from the start until the first `shut`, which lets them keep everything."""

    wants_bytes = False

    def __init__(self) -> None:
        self.layers: set[str] = set()
        self._door = door()
        self._door.add(self)

    def shut(self) -> None:
        self._door.shut = bool(self.layers)
        self._door.remove(self)

    def open(self) -> None:
        self._door.shut = False

    def close(self) -> None:
        """Let go. Where a plan took their place they stay shut: see `shut`."""
        self._door.remove(self)

    def checkpointed(self, call: CheckpointCall, _: int) -> None:
        self.layers.add(call.layer)

    def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
        """Not of interest."""

    def released(self, call: CheckpointCall) -> None:
        """Not of interest."""
