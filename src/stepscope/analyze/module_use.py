"""How a loop calls its modules: which of the calls without gradients evaluate the model.

A rollout, a target network or a teacher is a part of training; a pass over held-out data is not.
Both run without gradients. docs/concepts/phases.md has the definition that this file implements.
"""

from __future__ import annotations

from copy import copy

from stepscope.analyze.spans import FORWARD, SpanRow
from stepscope.model import names

__all__ = ["ModuleUse"]

_MOST = 16_384  # modules that are remembered: a program may make new ones for each step
_STEPS = 64  # older steps count half
# A module in eval mode that is called in more than a third of the steps is a part of them.
_REGULAR = 1 / 3


class ModuleUse:
    """`take` every span of the loop, `step_ended` after each step; then ask `is_evaluation`."""

    def __init__(self) -> None:
        self._trained: set[int] = set()
        self._now: set[int] = set()  # called in eval mode in the step under way
        self._steps: dict[int, float] = {}  # module → steps in which it was called in eval mode
        self._all_steps = 0.0

    def copy(self) -> ModuleUse:
        made = copy(self)
        made._trained, made._now = set(self._trained), set(self._now)
        made._steps = dict(self._steps)
        return made

    def take(self, row: SpanRow) -> None:
        if row[2] != FORWARD:
            return
        if row[4] > 0:
            if len(self._trained) >= _MOST:
                self._trained.clear()
            self._trained.add(row[3])
        elif row[4] == names.FORWARD_IN_EVAL:
            self._now.add(row[3])

    def step_ended(self) -> None:
        self._all_steps += 1
        for module in self._now:
            self._steps[module] = self._steps.get(module, 0.0) + 1
        self._now.clear()
        if self._all_steps >= _STEPS:
            self._all_steps /= 2
            self._steps = {
                module: count / 2 for module, count in self._steps.items() if count >= 1
            }  # fmt: skip

    def is_evaluation(self, module: int, value: float) -> bool:
        """Whether a forward outside a loader iteration evaluates; `value`: that of its span."""
        if value >= 0 or module not in self._trained:
            return False
        return value == names.FORWARD_ON_KNOWN or not self._is_regular(module)

    def _is_regular(self, module: int) -> bool:
        """Called in many steps, the one that is asked about not counted."""
        return self._steps.get(module, 0.0) - 1 > _REGULAR * max(1.0, self._all_steps - 1)
