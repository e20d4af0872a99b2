"""Checkpoints that the program has → `checkpoint.recompute` spans, and what each saves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepscope.collect.checkpoints import door
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.limits import OwnLimits
from stepscope.model import names
from stepscope.record.recorder import Recorder

if TYPE_CHECKING:
    from stepscope.collect.checkpoints import CheckpointCall

__all__ = ["CheckpointsCollector"]

MOST_LAYERS = 2000  # names that the recorder keeps; those beyond have the number 0


class _Step:
    """What is saved in a sampled step, by the number of the layer."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}  # calls that were not recomputed yet
        self.most: dict[int, int] = {}  # of these, at once
        self.bytes: dict[int, list[int]] = {}  # of each call

    def checkpointed(self, number: int) -> None:
        waiting = self.waiting[number] = self.waiting.get(number, 0) + 1
        self.most[number] = max(self.most.get(number, 0), waiting)

    def recomputed(self, number: int, saved_bytes: int) -> None:
        self.waiting[number] = self.waiting.get(number, 0) - 1
        if saved_bytes >= 0:
            self.bytes.setdefault(number, []).append(saved_bytes)

    def at_once(self, number: int) -> float:
        """Bytes: all calls of a layer at their most, as when the forward pass has just ended."""
        known = self.bytes[number]
        return sum(known) / len(known) * self.most.get(number, 1)


class CheckpointsCollector(HookingCollector):
    """Tells every recomputation; what it saves, and what memory is left, on sampled steps."""

    name = "checkpoints"

    def __init__(self) -> None:
        super().__init__()
        self.wants_bytes = False  # asked by the door at each call
        self._numbers: dict[str, int] = {}
        self._step: _Step | None = None
        self._own_ns = 0
        self._left = False  # was told in this step
        self._limits: OwnLimits | None = None

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder
        intern = recorder.intern
        self._layer, self._again = intern(names.CHECKPOINT_LAYER), intern(names.CHECKPOINT_AGAIN)
        self._saved, self._memory = intern(names.CHECKPOINT_SAVED), intern(names.CHECKPOINT_LEFT)
        door().failed = recorder.failed
        door().add(self)

    def _uninstall(self) -> None:
        self.drop_step()
        door().remove(self)
        door().failed = None
        if self._limits is not None:
            self._limits.close()
            self._limits = None
        super()._uninstall()

    # ---- what the door tells ----

    def checkpointed(self, call: CheckpointCall, _: int) -> None:
        if self._step is not None and call.wants_bytes:
            self._step.checkpointed(self._number(call))

    def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
        number, now_ns = self._number(call), self._recorder.now_ns()
        if not door().running.depth:  # else its time is part of that of the one around it
            self._recorder.complete(self._again, now_ns - duration_ns, duration_ns, number)
        step = self._step
        if step is not None and call.wants_bytes and call.recomputations == 1:
            step.recomputed(number, call.saved_bytes)
            self._tell_left()

    def released(self, call: CheckpointCall) -> None:
        """Nobody asks."""

    def _number(self, call: CheckpointCall) -> int:
        number = self._numbers.get(call.layer, 0)
        if not number and len(self._numbers) < MOST_LAYERS:
            number = self._numbers[call.layer] = len(self._numbers) + 1
            at = call.location
            told = {"layer": call.layer} | (at._asdict() if at is not None else {})
            self._recorder.mark(self._layer, number, self._recorder.intern(json.dumps(told)))
        return number

    def _tell_left(self) -> None:
        """Once a step, in its first recomputation: then memory is about as full as it gets."""
        if self._left:
            return
        began_ns, self._left = self._recorder.now_ns(), True
        if self._limits is None:
            self._limits = OwnLimits()
        use = self._limits.nearest()
        if use is not None:
            kind = self._recorder.intern(use.kind)
            self._recorder.sample(self._memory, float(use.left_bytes), use.limit_bytes, 0, kind)
        self._own_ns += self._recorder.now_ns() - began_ns

    # ---- on sampled steps ----

    def begin_step(self) -> None:
        if self._running:
            self._step, self._left = _Step(), False
            self._own_ns = -door().counting_ns
            self.wants_bytes = True

    def drop_step(self) -> None:
        self.wants_bytes, self._step = False, None

    def end_step(self) -> int:
        step = self._step
        self.drop_step()
        if step is None:
            return 0
        for number in step.bytes:
            self._recorder.sample(self._saved, step.at_once(number), number)
        return self._own_ns + door().counting_ns
