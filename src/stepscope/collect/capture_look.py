"""One capture, as the thread that trains sees it: what is looked at in each of its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stepscope.collect.chain import nothing, placed
from stepscope.collect.layers import LayersCollector
from stepscope.collect.operators import OperatorsCollector
from stepscope.collect.watch import Call, Watch
from stepscope.model import names
from stepscope.model.capture_request import CaptureRequest
from stepscope.record.recorder import Recorder

__all__ = ["Look"]

OPERATOR_STEPS: Final = 3  # as in OPERATOR_PLANS: their means can be taken together
MOST_SHARE: Final = 0.1  # of the time of the capture, that timing layers may take


class Look:
    """Begun and ended by another thread (`begin`, `told`); in between, `step_ended` at step ends.

    The first step end is where it begins for layers and operators: the step that was under way is
    not seen whole.
    """

    def __init__(
        self,
        number: int,
        request: CaptureRequest,
        recorder: Recorder,
        watch: Watch,
        layers: LayersCollector,
        operators: OperatorsCollector,
    ) -> None:
        self.number, self.request = number, request
        self.deadline_ns = self.from_ns = self.ended_ns = 0
        self.is_over = False
        self.notes: list[str] = []
        self._recorder, self._watch = recorder, watch
        self._layers, self._operators = layers, operators
        self.at_end: Callable[[], None] = nothing  # at every step end, the first included
        self._own = recorder.intern(names.OWN_LOOK)
        self._steps = self._layered = self._profiled = 0
        self._took_ns = 0  # by timing layers
        self._times_layers = self._profiles = False  # in the step that is under way
        self._wants_operators = request.operators

    def begin(self) -> None:
        """From here on the time counts."""
        self.deadline_ns = self._recorder.now_ns() + round(self.request.seconds * 1e9)

    @property
    def is_in_step(self) -> bool:
        """Something is on that only the training thread can end."""
        return self._times_layers or self._profiles

    def told(self) -> dict[str, Any]:
        """The text of the mark at its end."""
        return {
            "steps": self._steps,
            "layered": self._layered,
            "profiled": self._profiled,
            "from_ns": self.from_ns,
            "ended_ns": self.ended_ns,
            "notes": self.notes,
        }

    # ---- at step ends ----

    def step_ended(self) -> None:
        now_ns = self._recorder.now_ns()
        if self.from_ns:
            self._steps += 1
        else:
            self.from_ns = now_ns
        self.is_over = self._steps >= self.request.steps or now_ns >= self.deadline_ns
        token = self._recorder.begin(self._own)
        try:
            self._end_parts()
            self.at_end()
            if not self.is_over:
                self._begin_parts(now_ns)
        finally:
            self._recorder.end(token)
            if self.is_over:  # with all that was told of the last step
                self.ended_ns = self._recorder.now_ns()

    def _end_parts(self) -> None:
        if self._times_layers:
            self._times_layers = False
            self._took_ns += self._layers.end_step()
            self._layered += 1
        if self._profiles:
            self._profiled += 1
            if self._profiled >= OPERATOR_STEPS or self.is_over:
                self._stop_profiling()
                if not self._operators.tell(self._profiled):
                    self._profiled = 0
                    self.notes.append(
                        "Operators were not seen: another profiler, a fork or a long step came"
                        " between."
                    )

    def _begin_parts(self, now_ns: int) -> None:
        """One at a time: each would be in the times of the other."""
        if self._profiles:
            return
        if self._wants_operators:
            self._wants_operators = False
            if self._operators.look():
                self._profiles = True
                self._watch.call = self._bounded()
                return
            self.notes.append("Operators were not seen: another profiler runs.")
        elapsed_ns = now_ns - self.from_ns
        can_pay = not self._layered or self._took_ns <= MOST_SHARE * elapsed_ns
        if self.request.layers and can_pay:
            self._times_layers = True
            self._layers.begin_step()

    def _bounded(self) -> Call:
        """Module calls while operators are profiled: a step that does not end in time (a long
        evaluation) must not be kept in memory to its end."""
        now, deadline_ns, drop = self._recorder.now_ns, self.deadline_ns, self._operators.drop

        def call(
            original: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if now() >= deadline_ns:
                drop()
            return original(module, *args, **kwargs)

        made: Call = placed(call)
        return made

    def _stop_profiling(self) -> None:
        self._profiles = False
        self._watch.call = None

    def drop_step(self) -> None:
        """Leave the step that is under way; it does not count. By the thread that trains."""
        if self._times_layers:
            self._times_layers = False
            self._layers.drop_step()
        if self._profiles:
            self._stop_profiling()
            self._operators.drop()
