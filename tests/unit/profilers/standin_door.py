"""A door, a manager and an engine that do what a test tells them (interface: decision 014)."""

from __future__ import annotations

from typing import Any

from stepscope.model.checkpoint_events import CheckpointEventType

__all__ = ["Call", "Door", "Watched"]


class Watched:
    """A manager or an engine, as far as a profiler knows them."""

    def __init__(self) -> None:
        self.observers: list[Any] = []
        self.prefetches = False

    def tell(self, layer: str, kind: CheckpointEventType, duration_ns: int, size: int) -> None:
        for observer in list(self.observers):
            observer(layer, kind, duration_ns, size)


class Call:
    def __init__(self, layer: str, kept_bytes: int = 0, saved_bytes: int = 0) -> None:
        self.layer, self.kept_bytes, self.saved_bytes = layer, kept_bytes, saved_bytes
        self.is_repeated = False


class Door:
    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def add(self, listener: Any) -> None:
        self.listeners.append(listener)

    def remove(self, listener: Any) -> None:
        if listener in self.listeners:
            self.listeners.remove(listener)

    def checkpointed(self, call: Call, duration_ns: int = 0) -> None:
        for listener in list(self.listeners):
            listener.checkpointed(call, duration_ns)

    def recomputed(self, call: Call, duration_ns: int = 0) -> None:
        for listener in list(self.listeners):
            listener.recomputed(call, duration_ns)

    def released(self, call: Call) -> None:
        for listener in list(self.listeners):
            listener.released(call)
