"""The checkpoints that the program has by itself: which layers, and on or off."""

from __future__ import annotations

from stepscope.collect.checkpoints import CheckpointCall, door

__all__ = ["PresentCheckpoints"]


class PresentCheckpoints:
    """Listens from the start until the first `shut`, which lets them keep everything."""

    wants_bytes = False

    def __init__(self) -> None:
        self.layers: set[str] = set()
        self.are_managed = False  # some of them by a CheckpointManager, which cannot be shut
        self._door = door()
        self._was_shut = self._door.shut
        self._door.add(self)

    def shut(self) -> None:
        self._door.shut = bool(self.layers)
        self._door.remove(self)

    def open(self) -> None:
        self._door.shut = self._was_shut

    def close(self) -> None:
        """Let go; they stay as they are now, shut or open."""
        self._door.remove(self)

    def has(self, module: str) -> bool:
        """Whether they recompute the module of that name. Around the model there may be another
        one (DistributedDataParallel), which its names begin with."""
        return any(one == module or one.endswith(f".{module}") for one in self.layers)

    def checkpointed(self, call: CheckpointCall, _: int) -> None:
        self.layers.add(call.layer)
        self.are_managed |= call.is_managed

    def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
        """Not of interest."""

    def released(self, call: CheckpointCall) -> None:
        """Not of interest."""
