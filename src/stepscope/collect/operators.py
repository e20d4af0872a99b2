"""torch.profiler over a few steps → `op` marks, folded at once.

Only what the dispatcher tells is taken, no stacks and no shapes, and nothing is kept but sums. A
profiler of the program's own comes first: ours does not begin while it runs, and leaves when it
comes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from stepscope.collect.chain import hiding
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.operator_times import OperatorTimes, fold_events
from stepscope.collect.trait_marks import tell
from stepscope.model import names, traits
from stepscope.record.recorder import Recorder

__all__ = ["OPERATOR_PLANS", "OperatorsCollector", "Plan"]

TOP = 40


class Plan(NamedTuple):
    steps: int
    first: int  # after so many steps
    share: float  # of the wall clock so far, that profiling may cost
    devices: bool  # whether the device's side is looked at too


OPERATOR_PLANS: Final[dict[str, Plan | None]] = {
    "production": None,
    "basic": None,
    "detailed": Plan(3, 10, 0.015, True),
    "comprehensive": Plan(3, 5, 0.05, True),
}
EXPECTED_NS = 50_000_000  # mostly for turning the records into Python's


class OperatorsCollector(HookingCollector):
    """Called after each step; profiles some of them once."""

    name = "operators"

    def __init__(self, plan: Plan | None) -> None:
        super().__init__()
        self._plan = plan
        self._steps = 0  # seen so far
        self._start_ns = 0
        self._left = -1  # steps of the plan that are still to be profiled; -1: not begun
        self.is_looking = False
        self._minds_forks = False
        self._own_ns = 0
        self._thread = 0
        self._host: Any = None  # how torch marks events of the host, where a device is seen too

    def __reduce__(self) -> tuple[type[OperatorsCollector], tuple[None]]:
        return OperatorsCollector, (None,)

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def _uninstall(self) -> None:
        self.drop()
        super()._uninstall()

    def look(self) -> bool:
        """Profile from here on, whatever the plan says. False: somebody does so already."""
        return not self.is_looking and self._start(devices=True)

    def tell(self, steps: int) -> bool:
        """What was seen since `look`, so many steps. False: nothing, a fork or a profiler of the
        program's own came between."""
        if not self.is_looking:
            return False
        self._tell(steps)
        return True

    def after_step(self) -> None:
        """Never raises."""
        if self._plan is None or not self._running:
            return
        try:
            self._step(self._plan, self._recorder.now_ns())
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._plan = None
            self._recorder.failed(self.name, error)

    def _step(self, plan: Plan, now_ns: int) -> None:
        self._steps += 1
        self._start_ns = self._start_ns or now_ns
        if self._left > 0:
            self._left -= 1
            if not self._left:
                self._tell(plan.steps)
        elif self._left < 0 and self._is_due(plan, now_ns) and self._start(plan.devices):
            self._left = plan.steps

    def _is_due(self, plan: Plan, now_ns: int) -> bool:
        can_pay = plan.share * (now_ns - self._start_ns) >= EXPECTED_NS
        return self._steps >= plan.first and can_pay and not self.is_looking

    def _start(self, devices: bool) -> bool:
        import torch
        from torch import autograd

        if autograd._profiler_enabled():
            return False
        if not self._minds_forks:  # such functions cannot be taken back
            self._minds_forks = True
            os.register_at_fork(before=self._before_fork)
        self._thread = threading.get_ident()
        state, activities = autograd.ProfilerState.KINETO, {autograd.ProfilerActivity.CPU}
        if devices and torch.cuda.is_initialized():
            activities.add(autograd.ProfilerActivity.CUDA)
            self._host = autograd.DeviceType.CPU
        experimental = torch._C._profiler._ExperimentalConfig()
        config = autograd.ProfilerConfig(state, False, False, False, False, False, experimental)
        with _quiet():
            autograd._prepare_profiler(config, activities)
            autograd._enable_profiler(config, activities)
        self.is_looking = True
        self._patches.put(autograd.profiler.profile, "_prepare_trace", self._leaving(autograd))
        return True

    def _leaving(self, autograd: Any) -> Callable[..., Any]:
        """The program starts a profiler of its own."""
        original = autograd.profiler.profile._prepare_trace

        def _prepare_trace(profile: Any) -> Any:
            self.drop()
            return original(profile)

        return hiding(original, _prepare_trace)

    def drop(self) -> None:
        """Stop profiling, if we do; what was seen is forgotten. Never raises."""
        if self.is_looking and threading.get_ident() == self._thread:
            try:
                self._finish()
            except Exception as error:  # noqa: BLE001
                self._recorder.failed(self.name, error)

    def _before_fork(self) -> None:
        """A child would go on recording for ever: its parent's profiler is not its own to stop."""
        self.drop()

    def _finish(self) -> Any:
        from torch import autograd

        self.is_looking = False
        self._left = min(self._left, 0)
        self._patches.undo()
        return autograd._disable_profiler()

    def _tell(self, steps: int) -> None:
        recorder, began_ns = self._recorder, self._recorder.now_ns()
        found = fold_events(self._finish().events(), self._host)
        tell_operators(recorder, found, steps)
        self._own_ns += recorder.now_ns() - began_ns
        recorder.sample(recorder.intern(names.OWN_OPERATORS_NS), float(self._own_ns))


def tell_operators(recorder: Recorder, found: OperatorTimes, steps: int) -> None:
    """The dearest as marks, and how many there are in a step as a trait."""
    dearest = sorted(found.operators.items(), key=lambda item: -item[1].self_ns)[:TOP]
    op = recorder.intern(names.OP)
    for name, times in dearest:
        text = f"{name}\t{times.calls}\t{steps}"
        recorder.mark(op, times.self_ns, recorder.intern(text))
    if found.outermost:
        told = {"ops": found.outermost / steps, "median_us": found.median_ns / 1e3}
        tell(recorder, traits.OPS_PER_STEP, told)


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's profiler says on stderr that it starts, unless told not to when it is first used."""
    variable = "KINETO_LOG_LEVEL"
    if variable in os.environ:
        yield
        return
    os.environ[variable] = "9"
    try:
        yield
    finally:
        os.environ.pop(variable, None)
