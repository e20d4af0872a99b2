"""A closer look at some steps that was asked for while the program runs (decision 016).

A small thread asks once a second whether there is a new request, so that a program that makes no
step answers too. It begins and ends the capture: stacks at a high rate, and marks.
What belongs to steps, layers and operators, is begun and ended at their ends, by the thread that
trains; that one pays for a look at an attribute as long as nobody asks.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Final

from stepscope.collect.capture_look import Look
from stepscope.collect.capture_memory import GrowingLines
from stepscope.collect.capture_thread import CaptureThread
from stepscope.collect.control import Control, open_control
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.layers import LayersCollector
from stepscope.collect.operators import OperatorsCollector
from stepscope.collect.sampled import SampledSteps
from stepscope.collect.stacks import StackCollector
from stepscope.collect.tensor_heap import HeapUnseenError
from stepscope.collect.watch import Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["Captures"]

_TURN_S: Final = 0.05  # the training thread may be at a step end
_MOMENT_S: Final = 1.0  # the lock is held for far less, but for a fork of a large process


class Captures(HookingCollector):
    """One for each process. `after_step` at every step end; `listen` once the program lives."""

    name = "captures"

    def __init__(
        self,
        watch: Watch,
        steps: SampledSteps,
        layers: LayersCollector,
        operators: OperatorsCollector,
        sees_memory: bool = False,
    ) -> None:
        """sees_memory: this run looks at memory anyhow."""
        super().__init__()
        self._watch, self._steps = watch, steps
        self._layers, self._operators = layers, operators
        self._sees_memory = sees_memory
        self._control: Control | None = None
        self._answered = 0
        self._lock = threading.RLock()  # whoever has it may change the look
        self._thread = CaptureThread(self._tick)
        self._memory = GrowingLines()
        self._stacks: StackCollector | None = None
        self.look: Look | None = None  # under way
        self._abandoned: Look | None = None  # ended while the training thread was in a step
        self._sleeps = False  # a forked child, of which nobody knows whether it trains

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def _uninstall(self) -> None:
        self.leave()
        super()._uninstall()

    def listen(self, status_folder: str) -> None:
        """From now on requests in this folder are answered. OSError: nobody can ask."""
        if self._control is None and self._running:
            self._control = open_control(Path(status_folder))
            self._thread.start(self._lock, self._recorder.failed)

    @property
    def is_looking(self) -> bool:
        """Whether the end of the step that begins must not be missed."""
        return self.look is not None or self._abandoned is not None

    # ---- the training thread ----

    def after_step(self) -> None:
        """Never raises."""
        if self.look is None and self._abandoned is None and not self._sleeps:
            return
        if not self._lock.acquire(timeout=_MOMENT_S):
            return  # somebody is very slow; training is not to wait for them
        try:
            if self._sleeps:
                self._sleeps = False
                self._thread.resume()
            self._drop_abandoned()
            look = self.look  # once: its own thread may end it meanwhile
            if look is not None and not look.is_over:
                look.step_ended()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(self.name, error)
        finally:
            self._lock.release()

    def _drop_abandoned(self) -> None:
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None:
            abandoned.drop_step()

    # ---- our own thread ----

    def _tick(self) -> bool:
        """Whether a capture is under way."""
        look, control = self.look, self._control
        if look is not None:
            if self._may_end(look):
                self._end(look)
        elif control is not None and control.asked[0] > self._answered:
            self._answered += 1
            self._begin(control, self._answered)
        return self.look is not None

    def _begin(self, control: Control, number: int) -> None:
        try:
            request = control.read(number)
        except (OSError, ValueError) as error:
            self._tell_end(number, {"why": f"the request cannot be read ({error})"})
            return
        if 0 < request.expires_ns < self._recorder.now_ns():
            self._tell_end(number, {"why": "it was asked for too long ago"})
            return
        look = Look(number, request, self._recorder, self._watch, self._layers, self._operators)
        try:
            self._start(look)
        except Exception as error:  # noqa: BLE001 - nothing of it may stay on
            self._recorder.failed("beginning a capture", error)
            look.notes.append("It could not be begun.")
            self._end(look)

    def _start(self, look: Look) -> None:
        request = look.request
        self._stacks = StackCollector(request.interval_s)
        self._stacks.start(self._recorder)
        if request.memory:
            self._begin_memory(look)
        self._steps.paused = True
        self._mark(names.CAPTURE_BEGIN, look.number, request.to_json())
        look.begin()
        self.look = look

    def _begin_memory(self, look: Look) -> None:
        if self._sees_memory:
            look.notes.append("This run records memory anyhow: see stepscope memory.")
            return
        try:
            self._memory.begin(self._recorder, look.request.steps)
            look.at_end = self._memory.after_step
        except HeapUnseenError as why:
            look.notes.append(f"Memory could not be seen: {why}.")

    def _may_end(self, look: Look) -> bool:
        """Ends it where its time is over; the steps may have ended it already."""
        is_late = self._recorder.now_ns() >= look.deadline_ns
        # Not for longer: who forks holds it, and waits for this thread to end.
        if not (look.is_over or is_late) or not self._lock.acquire(timeout=_TURN_S):
            return False
        try:
            if not look.is_over:
                self._cut(look)
            return True
        finally:
            self._lock.release()

    def _cut(self, look: Look, why: str = "") -> None:
        """With what was seen so far. The step under way is the training thread's to leave."""
        if look.is_in_step:
            self._abandoned = look
        look.is_over = True
        look.ended_ns = look.ended_ns or self._recorder.now_ns()
        if why:
            look.notes.append(why)

    def _end(self, look: Look) -> None:
        self._steps.paused = False
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            stacks.stop()
        try:
            self._memory.end(self._recorder, look.number)
        except Exception as error:  # noqa: BLE001 - the end has to be told in any case
            self._recorder.failed("memory of a capture", error)
        self.look = None
        self._tell_end(look.number, look.told())

    def _tell_end(self, number: int, told: dict[str, Any]) -> None:
        self._mark(names.CAPTURE_END, number, json.dumps(told))
        self._recorder.flush()

    def _mark(self, name: str, number: int, text: str) -> None:
        intern = self._recorder.intern
        self._recorder.mark(intern(name), number, intern(text))

    # ---- the end, and forks ----

    def leave(self) -> None:
        """The program is over, or we are: what was seen so far is told."""
        self._thread.stop()
        look = self.look
        if look is not None:
            self._cut(look, "The program ended meanwhile.")
            self._end(look)
        self._drop_abandoned()

    def after_fork(self) -> None:
        """In a child: the capture is its parent's. It answers later ones itself, if it trains."""
        self._lock = threading.RLock()
        look, self.look = self.look or self._abandoned, None
        self._abandoned = self._stacks = None
        self._steps.paused = False
        self._memory = GrowingLines()
        self._thread.after_fork(self._lock)
        if look is not None:
            look.drop_step()
        if self._control is not None:
            self._answered = self._control.asked[0]
            self._sleeps = True
