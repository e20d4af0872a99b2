"""What a rule is: it is told all there is, and says what holds now."""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.model.watching import Condition, Reading, StepSeen, StepsPassed

__all__ = ["Rule"]


class Rule:
    """Base of all rules: hears nothing and has nothing to say.

    Times are of the clock that stands still while the program is suspended. The state of a rule
    must not grow with the length of the run.
    """

    # What it sees is over when the program is: its conditions are not asked for at the end.
    needs_a_running_program = False

    def step(self, seen: StepSeen) -> None:
        """A step is over."""

    def passed(self, steps: StepsPassed) -> None:
        """Steps are over that nobody looked at: there are more than can be afforded."""

    def reading(self, reading: Reading) -> None:
        """A metric was read; its value is finite, except for a loss."""

    def left(self, rank: int) -> None:
        """The process of that rank has ended; another one may take its place."""

    def conditions(self, now_ns: int) -> Iterable[Condition]:
        """All that holds at this moment, whether it was said before or not."""
        return ()
