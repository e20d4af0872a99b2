"""Checkpoints of torch, of the manager and of the engine → events of a tally."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from random import Random
from typing import Any, Protocol, TypeAlias

from stepscope.collect.checkpoint_peak import PeakWatch, heap_marks
from stepscope.model.checkpoint_events import CheckpointEventType
from stepscope.record.protocol import Tally

__all__ = ["Listening", "Observed", "Observer"]

# layer_id, what happened, duration_ns, bytes
Observer: TypeAlias = Callable[[str, CheckpointEventType, int, int], None]

_HOLDS = {CheckpointEventType.CHECKPOINT: 1, CheckpointEventType.DEALLOCATE: -1}
_UNKNOWN = -1
# Backward passes in which all is measured: memory, and the bytes of each call. Then the bytes of a
# share of the calls, by chance: in no step with the layers.
_PASSES_MEASURED = 8
_MEASURED_SHARE = 1 / 8


class Observed(Protocol):
    """Tells what torch's checkpoints do not show: a CheckpointManager, a RecomputationEngine."""

    observers: list[Observer]


class _Call(Protocol):
    """What is needed of collect/checkpoints.py's CheckpointCall."""

    is_repeated: bool
    layer: str
    kept_bytes: int
    saved_bytes: int


class Listening:
    """Counts what it is told, from `start` to `stop`, or until `owner` is gone.

    The door may call it from any thread, and out of a garbage collection within one of its calls.
    """

    def __init__(self, tally: Tally, observed: tuple[Observed, ...], owner: Any) -> None:
        self._tally, self._observed = tally, observed
        self._owner = weakref.ref(owner)
        self._chance = Random()  # of our own: the program's numbers stay as they are
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        # Of calls whose graph is there: bytes kept, and bytes that are not (-1: not known).
        self._live: dict[int, tuple[int, int]] = {}
        self._unkept_bytes = 0  # by calls that were not recomputed yet
        self.peak_saved_bytes = 0  # the most of that right after a recomputation
        self.late_saved_bytes: dict[str, int] = {}  # by layer: known only when it was recomputed
        self.measured: dict[str, int] = {}  # by layer: calls whose savings are known
        self._passes, self._in_pass = 0, False  # from the first recomputation until none is live
        self._last: dict[str, tuple[int, int]] = {}  # by layer: bytes kept and not, measured last
        self.peak = PeakWatch(None)

    def start(self) -> None:
        from stepscope.collect.checkpoints import door

        self._begin()
        for one in self._observed:
            one.observers.append(self.observed)
        door().add(self)
        self.peak = PeakWatch(heap_marks())

    def stop(self) -> None:
        """Again: nothing happens."""
        from stepscope.collect.checkpoints import door

        door().remove(self)
        with self._lock:
            self.peak.stop()
        for one in self._observed:
            if self.observed in one.observers:
                one.observers.remove(self.observed)

    def after_fork(self) -> None:
        """In the child: who held the lock is not here, and what was counted is the parent's."""
        self._begin()

    def _is_left(self) -> bool:
        """Nobody has the profiler any more."""
        if self._owner() is not None:
            return False
        self.stop()
        return True

    # ---- a listener of the door ----

    @property
    def wants_bytes(self) -> bool:
        """Counting bytes is most of what a call costs: after the first it is done for some."""
        return self._passes < _PASSES_MEASURED or self._chance.random() < _MEASURED_SHARE

    def _bytes_of(self, call: _Call) -> tuple[int, int]:
        """Kept and not; of a call that was not measured, as of the last of its layer that was."""
        if call.kept_bytes == _UNKNOWN and call.layer in self._last:
            return self._last[call.layer]
        found = self._last[call.layer] = (max(0, call.kept_bytes), call.saved_bytes)
        return found

    def checkpointed(self, call: _Call, duration_ns: int) -> None:
        if self._is_left():
            return
        with self._lock:
            kept, saved = self._bytes_of(call)
            self._cut(call)
            # One that is made again stands for one that counts already.
            unkept = 0 if call.is_repeated else saved
            self._live[id(call)] = (kept, unkept)
            self._unkept_bytes += max(0, unkept)
            if call.saved_bytes != _UNKNOWN:
                self._measured(call.layer)
        kind = CheckpointEventType.CHECKPOINT
        self._tally.add(call.layer, kind, duration_ns, max(0, saved), kept)

    def recomputing(self, call: _Call) -> None:
        with self._lock:
            self.peak.window(self._unkept_bytes)

    def recomputed(self, call: _Call, duration_ns: int) -> None:
        with self._lock:
            kept, saved = self._live.get(id(call), (0, 0))
            self._live[id(call)] = (kept, 0)  # a second time it is no news
            self._in_pass = True
            self._unkept_bytes -= max(0, saved)
            self.peak.recomputed(self._unkept_bytes)
            self.peak_saved_bytes = max(self.peak_saved_bytes, self._unkept_bytes)
            if saved == _UNKNOWN and call.saved_bytes != _UNKNOWN:
                saved = call.saved_bytes
                late = self.late_saved_bytes
                late[call.layer] = late.get(call.layer, 0) + saved
                self._measured(call.layer)
        kind = CheckpointEventType.RECOMPUTE
        self._tally.add(call.layer, kind, duration_ns, max(0, saved))

    def _cut(self, call: _Call) -> None:
        """A window ends; one within a recomputation has that in it."""
        if call.is_repeated:
            self.peak.recomputed(self._unkept_bytes)
        else:
            self.peak.window(self._unkept_bytes)

    def _measured(self, layer: str) -> None:
        self.measured[layer] = self.measured.get(layer, 0) + 1

    def released(self, call: _Call) -> None:
        with self._lock:
            self._cut(call)
            kept, saved = self._live.pop(id(call), (0, 0))
            self._unkept_bytes -= max(0, saved)
            if self._in_pass and not self._live:
                self._end_pass()
        self._tally.add(call.layer, CheckpointEventType.DEALLOCATE, 0, kept, -kept)

    def _end_pass(self) -> None:
        self._passes, self._in_pass = self._passes + 1, False
        if self._passes >= _PASSES_MEASURED:
            self.peak.stop()

    # ---- an observer of the manager and the engine ----

    def observed(
        self, layer_id: str, kind: CheckpointEventType, duration_ns: int, size_bytes: int
    ) -> None:
        """A checkpoint that was registered by hand holds its bytes, and saves none."""
        if self._is_left():
            return
        held = _HOLDS.get(kind, 0) * size_bytes
        bytes_said = 0 if kind is CheckpointEventType.CHECKPOINT else size_bytes
        self._tally.add(layer_id, kind, duration_ns, bytes_said, held)
