"""Checkpoints that a program holds by hand: registered under a name, taken back, let go."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from stepscope.checkpointing.engine_observers import Observer, tell
from stepscope.checkpointing.tensors import storages, tensors_in
from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import CheckpointEventType

__all__ = ["Registry"]


class _Held(NamedTuple):
    value: Any
    storages: dict[int, int]


class Registry:
    """Thread safe. Bytes are those of the storages, each counted once however many checkpoints
    share it; observers are told outside the lock, so they may ask back."""

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._users: Counter[int] = Counter()  # storage → checkpoints that it is part of
        self._bytes = self._peak_bytes = 0

    def register(self, layer_id: str, value: Any) -> None:
        """Hold it; what was held under this name is let go first."""
        began_ns = time.perf_counter_ns()
        found = list(tensors_in((value,)))
        if not found:
            raise UsageError(f"The checkpoint of {layer_id!r} holds no tensor: {type(value)!r}.")
        held = _Held(value, storages(found))
        with self._lock:
            before = self._let_go(layer_id)
            self._held[layer_id] = held
            for storage, size in held.storages.items():
                self._users[storage] += 1
                self._bytes += size if self._users[storage] == 1 else 0
            self._peak_bytes = max(self._peak_bytes, self._bytes)
        if before is not None:
            self._tell(layer_id, CheckpointEventType.DEALLOCATE, began_ns, before)
        self._tell(layer_id, CheckpointEventType.CHECKPOINT, began_ns, held)

    def retrieve(self, layer_id: str) -> Any:
        """An error names those that there are."""
        held = self._take(layer_id)
        if held is None:
            there = ", ".join(sorted(self._held)) or "none"
            raise UsageError(f"There is no checkpoint of {layer_id!r}. Registered: {there}.")
        return held.value

    def retrieve_or(self, layer_id: str, otherwise: Callable[[], Any]) -> Any:
        held = self._take(layer_id)
        return otherwise() if held is None else held.value

    def has(self, layer_id: str) -> bool:
        return layer_id in self._held

    def deallocate(self, layer_id: str) -> bool:
        """False: there was none."""
        began_ns = time.perf_counter_ns()
        with self._lock:
            held = self._let_go(layer_id)
        if held is not None:
            self._tell(layer_id, CheckpointEventType.DEALLOCATE, began_ns, held)
        return held is not None

    def clear(self) -> None:
        for layer_id in tuple(self._held):
            self.deallocate(layer_id)

    @property
    def count(self) -> int:
        return len(self._held)

    @property
    def used_bytes(self) -> int:
        return self._bytes

    @property
    def peak_bytes(self) -> int:
        return self._peak_bytes

    def _take(self, layer_id: str) -> _Held | None:
        began_ns = time.perf_counter_ns()
        with self._lock:
            held = self._held.get(layer_id)
        if held is not None:
            self._tell(layer_id, CheckpointEventType.RETRIEVE, began_ns, held)
        return held

    def _let_go(self, layer_id: str) -> _Held | None:
        """Under the lock."""
        held = self._held.pop(layer_id, None)
        if held is not None:
            for storage, size in held.storages.items():
                self._users[storage] -= 1
                if self._users[storage] == 0:
                    del self._users[storage]
                    self._bytes -= size
        return held

    def _tell(self, layer_id: str, happened: CheckpointEventType, began_ns: int, of: _Held) -> None:
        duration_ns = time.perf_counter_ns() - began_ns
        tell(self._observers, layer_id, happened, duration_ns, sum(of.storages.values()))
