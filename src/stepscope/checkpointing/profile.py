"""Profiles steps of a training, so that every plan's peak and time can be told from them."""

from __future__ import annotations

from collections.abc import Generator
from statistics import median
from typing import Any, Final

from stepscope.checkpointing.choosing import modules_by_name
from stepscope.checkpointing.meter import Meter
from stepscope.checkpointing.pieces import Profiled
from stepscope.checkpointing.policies_kept import Keeping
from stepscope.checkpointing.saved import SavedStep
from stepscope.checkpointing.windows import WindowStep

__all__ = ["Profile"]

LOOKS: Final = 4  # steps of which the forward times are the medians


class Profile:
    """`run` yields where a step of the program is due; `profiled` is there when it is through."""

    def __init__(self, model: Any, meter: Meter, asked: Keeping) -> None:
        # As a manager knows them; of several names of a module the first.
        named = {id(one): (name, one) for name, one in reversed(modules_by_name(model).items())}
        self._model, self._meter, self._asked = model, meter, asked
        self._names = tuple(name for name, _ in reversed(named.values()))
        self._modules = tuple(module for _, module in reversed(named.values()))
        self.profiled: Profiled | None = None
        self.peaks: list[int] = []  # of the steps that were looked at

    def run(self) -> Generator[None]:
        modules = list(self._modules)
        looked = []
        for _ in range(LOOKS):
            step = WindowStep(modules, self._meter)
            try:
                yield
                step.end()
            finally:
                step.close()
            looked.append(step)
        saved = SavedStep(self._model, modules, self._meter, self._asked)
        try:
            yield
            saved.end()
        finally:
            saved.close()
        self.peaks = [step.peak_bytes for step in looked]
        # The largest batch that was seen is the one that has to fit.
        largest = max(looked, key=lambda step: step.peak_bytes)
        self.profiled = Profiled(self._names, self._modules, largest, saved, _forward_ms(looked))


def _forward_ms(looked: list[WindowStep]) -> dict[tuple[int, int], float]:
    taken: dict[tuple[int, int], list[float]] = {}
    for step in looked:
        for call, passage in zip(step.calls, step.passages, strict=True):
            if passage.ended is not None:
                taken.setdefault(call.key, []).append(step.forward_ms(passage))
    return {key: median(times) for key, times in taken.items()}
