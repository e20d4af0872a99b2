"""The twin of the native tally."""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:
    from stepscope.record.twin import TwinCore

__all__ = ["TwinTally"]

MOST_LAYERS, MOST_KINDS = 4096, 64
MOST_BYTES, MOST_NS = 1 << 48, 1 << 60
MOST_TOTAL = (1 << 63) - 1


class _Cell:
    def __init__(self, text: int) -> None:
        self.text = text
        self.count = self.ns = self.bytes = self.first_ns = self.last_ns = self.shift = 0


class TwinTally:
    """See record/protocol.py."""

    def __init__(self, core: TwinCore, name: int, kinds: tuple[str, str], keep: int) -> None:
        self.enabled = False
        self._core, self._name, self._keep = core, name, max(1, keep)
        self._holds, self._releases = kinds
        self._lock = threading.RLock()  # a collection within a call may call again
        self._number = 0
        self._forget()

    def _forget(self) -> None:
        self._generation = self._core.generation
        self._cells: dict[str, dict[str, _Cell]] = {}
        self._kinds: dict[str, int] = {}  # in the order in which they were seen first
        self._held: dict[str, int] = {}
        self._in_use = self._peak = 0

    def clear(self, number: int) -> None:
        with self._lock:
            self._forget()
            self._number = operator.index(number)

    def _mind_fork(self) -> None:
        if self._generation != self._core.generation:  # what was counted is a parent process's
            self._lock = threading.RLock()
            self._forget()

    # ---- what is added ----

    def add(self, layer: str, kind: object, duration_ns: int, bytes: int, held: int = 0) -> None:
        if not self.enabled:
            return
        _check("duration_ns", duration_ns, MOST_NS)
        _check("bytes", bytes, MOST_BYTES)
        if abs(operator.index(held)) >= MOST_BYTES:
            raise ValueError("held is not possible: use less than 2**48 bytes.")
        self._count(layer, _kind_text(kind), duration_ns, bytes, held)

    def record_event(
        self, layer_id: str, event_type: object, duration_ms: float, memory_bytes: int = 0
    ) -> None:
        if not self.enabled:
            return
        duration_ns = _ns(duration_ms)
        _check("memory_bytes", memory_bytes, MOST_BYTES)
        kind = _kind_text(event_type)
        held = {self._holds: memory_bytes, self._releases: -memory_bytes}.get(kind, 0)
        self._count(layer_id, kind, duration_ns, memory_bytes, held)

    def _count(self, layer: str, kind: str, duration_ns: int, amount: int, held: int) -> None:
        if not isinstance(layer, str):
            raise TypeError(f"layer_id must be a str, not {type(layer).__name__}")
        self._mind_fork()
        with self._lock:
            kind = self._known_kind(kind)
            layer, cell = self._cell(str(layer), kind)
            now_ns = self._core.now_ns()
            cell.count += 1
            cell.first_ns = cell.first_ns or now_ns
            cell.last_ns = now_ns
            cell.ns = min(MOST_TOTAL, cell.ns + duration_ns)
            cell.bytes = min(MOST_TOTAL, cell.bytes + amount)
            self._hold(layer, held)
            while cell.count >> cell.shift > self._keep:
                cell.shift += 1
            if cell.count % (1 << cell.shift) == 0:
                row = (now_ns, duration_ns, held, self._number, amount)
                self._core.push_counted((self._name, cell.text), row, float(1 << cell.shift))

    def _known_kind(self, kind: str) -> str:
        if kind not in self._kinds:
            kind = kind if len(self._kinds) < MOST_KINDS else "(other types)"
            self._kinds.setdefault(kind, len(self._kinds))
        return kind

    def _cell(self, layer: str, kind: str) -> tuple[str, _Cell]:
        if layer not in self._cells:
            layer = layer if len(self._cells) < MOST_LAYERS else "(other layers)"
        cells = self._cells.setdefault(layer, {})
        if kind not in cells:
            text = f"{kind}\t{layer}"
            text.encode()  # what cannot be written is refused here
            cells[kind] = _Cell(self._core.intern(text))
        return layer, cells[kind]

    def _hold(self, layer: str, held: int) -> None:
        """What a layer gives back is at most what it has."""
        before = self._held.get(layer, 0)
        held = max(held, -before)
        self._held[layer] = before + held
        self._in_use += held
        self._peak = max(self._peak, self._in_use)

    # ---- what is read ----

    def totals(self) -> list[tuple[str, str, int, int, int, int, int]]:
        self._mind_fork()
        with self._lock:
            return [
                (layer, kind, one.count, one.ns, one.bytes, one.first_ns, one.last_ns)
                for layer, cells in self._cells.items()
                for kind, one in sorted(cells.items(), key=lambda cell: self._kinds[cell[0]])
            ]

    def in_use(self) -> tuple[int, int]:
        self._mind_fork()
        with self._lock:
            return self._in_use, self._peak


def _check(name: str, amount: int, most: int) -> None:
    if not 0 <= operator.index(amount) < most:
        raise ValueError(f"{name}={amount} is not possible: use 0 or more, below {most}.")


def _ns(duration_ms: SupportsFloat) -> int:
    if isinstance(duration_ms, str):
        raise TypeError("must be real number, not str")
    ms = float(duration_ms)
    if not 0 <= ms < MOST_NS / 1e6:  # also what is no number
        raise ValueError(f"duration_ms={duration_ms} is not possible: use 0 or more milliseconds.")
    return round(ms * 1e6)


def _kind_text(kind: object) -> str:
    value = kind if isinstance(kind, str) else getattr(kind, "value", kind)
    if not isinstance(value, str):
        raise TypeError(
            "event_type must be a member of CheckpointEventType or a str, not"
            f" {type(value).__name__}"
        )
    if "\t" in value:
        raise ValueError("event_type must be without a tab.")
    return str.__str__(value)
