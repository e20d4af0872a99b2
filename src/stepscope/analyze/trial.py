"""What a run of a program is measured by: its steps, its losses, its precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Final

from stepscope.analyze.loop import Loop
from stepscope.analyze.loss_curve import LossFold
from stepscope.model import names, traits
from stepscope.model.event import Batch

__all__ = ["TRIAL_S", "TrialFold", "step_seconds", "trial_steps"]

_WARM_SHARE: Final = 0.05  # of the steps, at the start, that are not counted
_WARM: Final = (1, 10)  # at least and at most
WHOLE_S: Final = 15.0  # a program that trains no longer than this is run to its end
PASSES_S: Final = 20.0  # two passes over the data are run where they take no longer than this
LEAST_STEPS: Final = 20
TRIAL_S: Final = 6.0  # that the steps of a trial are to take, more or less


class TrialFold:
    """`update` with the batches of the training process, in order."""

    def __init__(self) -> None:
        self._losses = LossFold()
        self._dtypes: dict[str, float] = {}
        self._autocast: str | None = None

    def update(self, batch: Batch) -> None:
        self._losses.update(batch)
        for _, place in batch.places({names.TRAIT}):
            name, _, fact = batch.names[batch.columns["text"][place]].partition("\t")
            if name == traits.DTYPES:
                self._dtypes = json.loads(fact)
            elif name == traits.AUTOCAST:
                self._autocast = json.loads(fact)

    @property
    def losses(self) -> tuple[float, ...]:
        return self._losses.get()

    @property
    def dtype(self) -> str:
        """In which most of the model computes."""
        if self._autocast:
            return self._autocast
        return max(self._dtypes, key=lambda name: self._dtypes[name], default="float32")


def step_seconds(durations_ns: Sequence[int]) -> float | None:
    """The wall clock of a step, the first ones left out; None: there are too few.

    Not the median step: saves, collections and starts of workers fall on few steps.

    >>> step_seconds([9_000_000_000, 1_000_000_000, 3_000_000_000])
    2.0
    """
    count = len(durations_ns)
    warm = max(_WARM[0], min(_WARM[1], int(count * _WARM_SHARE)))
    if count <= warm:
        return None
    return sum(islice(durations_ns, warm, None)) / (count - warm) / 1e9


def trial_steps(loop: Loop, *, ended: bool, seconds: float = TRIAL_S) -> int:
    """How many steps a trial makes; 0: all of them. ended: the program came to its own end.

    Whole passes over the data where these are short: each begins with what only a pass has.
    """
    wall_s = loop.wall_ns / 1e9
    if ended and wall_s <= WHOLE_S:
        return 0
    step_s = step_seconds(loop.durations_ns) or wall_s / max(1, loop.steps)
    wanted = max(LEAST_STEPS, round(seconds / max(step_s, 1e-9)))
    a_pass = max(
        (use.batches // use.iterations for use in loop.loaders if use.iterations), default=0
    )
    passes = sum(use.iterations for use in loop.loaders)
    if passes > 1 and a_pass and 2 * a_pass * step_s <= PASSES_S:
        wanted = -(-max(wanted, 2 * a_pass) // a_pass) * a_pass
    return wanted
