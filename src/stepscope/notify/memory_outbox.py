"""An outbox for programs without a run folder: what is in it ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from stepscope.model.alert import Alert
from stepscope.model.delivery import Delivery, OutboxCounts, delivery_id

__all__ = ["MemoryOutbox"]

_MOST: Final = 10_000


class MemoryOutbox:
    """An Outbox in memory, of bounded size: beyond it, new ones are lost and counted."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[str, Delivery]] = {}
        self._known: set[str] = set()
        self._delivered = self._refused = self._lost = 0

    def add(self, alert: Alert, sinks: Sequence[str]) -> None:
        with self._lock:
            for sink in sinks:
                id = delivery_id(alert, sink)
                if id in self._waiting:
                    self._waiting[id] = (sink, self._waiting[id][1]._replace(alert=alert))
                elif id in self._known:
                    continue
                elif len(self._waiting) >= self._most:
                    self._lost += 1
                else:
                    self._known.add(id)
                    self._waiting[id] = (sink, Delivery(id, alert))

    def pending(self, sink: str, limit: int) -> list[Delivery]:
        with self._lock:
            return [one for name, one in self._waiting.values() if name == sink][:limit]

    def delivered(self, id: str) -> None:
        with self._lock:
            self._delivered += self._waiting.pop(id, None) is not None

    def failed(self, id: str, error: str, at_unix: float, *, permanent: bool = False) -> None:
        with self._lock:
            if permanent:
                self._refused += self._waiting.pop(id, None) is not None
            elif id in self._waiting:
                sink, one = self._waiting[id]
                self._waiting[id] = (sink, one._replace(attempts=one.attempts + 1))

    def counts(self) -> OutboxCounts:
        with self._lock:
            return OutboxCounts(
                pending=len(self._waiting),
                delivered=self._delivered,
                refused=self._refused,
                unsaved=len(self._waiting),
                lost=self._lost,
            )

    def close(self) -> None:
        """There is nobody else who could deliver it."""
