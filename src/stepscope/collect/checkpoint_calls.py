"""One activation checkpoint, and who is told of it."""

from __future__ import annotations

from typing import Protocol

from stepscope.collect.checkpoint_layers import Place

__all__ = ["CheckpointCall", "Listener"]


class CheckpointCall:
    """One checkpoint, from its forward until its graph is gone."""

    __slots__ = (
        "depth",
        "is_managed",
        "is_repeated",
        "kept_bytes",
        "layer",
        "listeners",
        "location",
        "recomputations",
        "saved_bytes",
        "started_ns",
        "wants_bytes",
    )

    def __init__(self, layer: str, location: Place | None, depth: int, wants_bytes: bool) -> None:
        self.layer = layer
        self.location = location  # file, line, function of the call that was seen first
        self.depth = depth  # how many checkpoints it runs inside of, in forward or recomputation
        self.is_managed = False  # by our CheckpointManager
        self.is_repeated = False  # made while one around it is recomputed: there is one before it
        self.wants_bytes = wants_bytes
        self.started_ns = 0
        self.kept_bytes = -1  # storages of its tensor arguments; -1: nobody asked
        # Storages that its forward would have kept for backward and that are gone when it returns,
        # less activations among its arguments that are kept only because of it; -1: not known (yet:
        # a reentrant one shows it when it is recomputed).
        self.saved_bytes = -1
        self.recomputations = 0
        self.listeners: tuple[Listener, ...] = ()  # that were told of it when its forward returned


class Listener(Protocol):
    """Is told of every checkpoint; what it raises goes to the door. Who can do without bytes says
    so with an attribute `wants_bytes` of False, which is asked at every call. Who has a method
    `recomputing(call)` is told when it begins, too."""

    def checkpointed(self, call: CheckpointCall, duration_ns: int) -> None:
        """Its forward returned."""

    def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
        """In a backward; torch has what it needs. With what ran inside it."""

    def released(self, call: CheckpointCall) -> None:
        """Its graph is gone. From any thread, at any time."""
