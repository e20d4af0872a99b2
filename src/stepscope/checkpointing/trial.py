"""The plan against no plan, in the same training: some steps with it, some without, in turns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from statistics import median
from typing import Final

from stepscope.checkpointing.meter import Meter
from stepscope.model.checkpoint_plan import Outcome
from stepscope.stats.paired import paired_ratio

__all__ = ["Arm", "Trial"]

ROUNDS: Final = 5
# A step after a change is not like the others: torch and libc have other memory at hand.
SETTLE: Final = 1
STEPS: Final = 3

Arm = str


class Trial:
    """`run` yields where a step of the program is due; `outcome` tells what was measured."""

    def __init__(
        self,
        meter: Meter,
        arms: Mapping[Arm, Callable[[], object]],
        rounds: int = ROUNDS,
        steps: int = STEPS,
    ) -> None:
        """arms: how to switch to each; the first is what the others are compared with. steps: that
        are measured of each arm in each round."""
        self._meter, self._arms, self._rounds, self._steps = meter, arms, rounds, steps
        self.round_ms: dict[Arm, list[float]] = {arm: [] for arm in arms}  # medians, one a round
        self._peaks: dict[Arm, int] = dict.fromkeys(arms, 0)

    def run(self) -> Generator[None]:
        names = list(self._arms)
        for number in range(self._rounds):
            # There and back: what drifts with time meets each arm as early as late.
            for arm in names if number % 2 == 0 else reversed(names):
                self._arms[arm]()
                yield from self._turn(arm)

    def _turn(self, arm: Arm) -> Generator[None]:
        for _ in range(SETTLE):
            yield
        taken = []
        for _ in range(self._steps):
            self._meter.mark()
            began = self._meter.moment()
            yield
            ended = self._meter.moment()
            self._peaks[arm] = max(self._peaks[arm], self._meter.mark().peak_bytes)
            taken.append((began, ended))
        self.round_ms[arm].append(median(self._meter.ms(began, ended) for began, ended in taken))

    def outcome(self, arm: Arm) -> Outcome:
        """Once `run` is through."""
        baseline = self.round_ms[next(iter(self._arms))]
        ratio = paired_ratio(baseline, self.round_ms[arm])
        return Outcome(
            self._peaks[arm],
            median(self.round_ms[arm]),
            ratio.low if ratio else None,
            ratio.high if ratio else None,
            self._steps * len(self.round_ms[arm]),
            ratio.middle if ratio else None,
        )
