"""Which settings of a loader are fastest, from few measurements.

Every setting is predicted by playing the loader through (advise/simulate.py). Measured are the
present one, the best predicted one and its neighbours, on and on while that helps; what is too
close to call is measured again, in turns. Neither torch nor a clock is in here: how a setting is
measured is the caller's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stepscope.advise.simulate import BatchWork, Loader, near_best, simulated
from stepscope.advise.throughput import NEAR_BEST, LoaderCosts
from stepscope.tune.loader_settings import Limits, LoaderSettings

__all__ = ["Found", "Limits", "LoaderSettings", "loader_model", "predicted_s", "search_loader"]

_CLOSE = 0.2  # beyond the best: may be the best itself, and is measured again;
_DOUBT = 0.5  # and so is what lies within this part of how far measurements of one lie apart
_SHARE_OF_GRID = 3  # a third of all settings is measured at most,
_LEAST = 3  # and never fewer than these
_REPEATS = 4
_BELIEVED = 3  # measurements: so many are believed, whatever the model says


class Found(NamedTuple):
    """`times_s`: what each setting that was measured took for a batch, each time it was measured;
    inf: it failed. `predicted_s`: all of the grid, corrected by what was measured."""

    best: LoaderSettings
    times_s: Mapping[LoaderSettings, Sequence[float]]
    predicted_s: Mapping[LoaderSettings, float]

    def time_s(self, settings: LoaderSettings) -> float:
        """The shortest: other programs make a measurement longer, never shorter."""
        return min(self.times_s[settings])


def loader_model(costs: LoaderCosts) -> Loader:
    """To play a loader of which only averages are known."""
    return Loader(
        made=[BatchWork(costs.worker_cpu_s, costs.worker_blocked_s)],
        main_s=costs.main_s,
        main_cpu_s=costs.main_cpu_s,
        cores=costs.cores,
        send_s=costs.serialise_s,
        receive_s=costs.unpickle_s,
    )


def predicted_s(model: Loader | None, settings: LoaderSettings) -> float:
    """Seconds from one batch to the next. Where nothing is known, all are alike."""
    if model is None:
        return 1.0
    playing = replace(model, prefetch=settings.prefetch_factor or 1)
    return 1.0 / simulated(playing, settings.num_workers)


def search_loader(
    measure: Callable[[LoaderSettings], float],
    model: Loader | None,
    limits: Limits,
    present: LoaderSettings | None = None,
    repeats: int = _REPEATS,
    most: int | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Found:
    """The smallest setting within 3 % of the fastest that was found; `most` are measured, a third
    of the grid where nothing is said, and no more of them once it is enough.

    measure: seconds from one batch to the next with these settings, whatever training does with a
    batch included; less is better, inf says that it failed.
    """
    search = _Search(measure, model, limits, repeats)
    search.most = min(search.most, most or search.most)
    search.is_enough = is_enough
    search.run(present)
    return search.found()


class _Search:
    def __init__(
        self,
        measure: Callable[[LoaderSettings], float],
        model: Loader | None,
        limits: Limits,
        repeats: int,
    ) -> None:
        self._measure, self._limits, self._repeats = measure, limits, repeats
        self._grid = limits.grid()
        self._known = {one: predicted_s(model, one) for one in self._grid}
        self.most = max(_LEAST, len(self._grid) // _SHARE_OF_GRID)
        self.is_enough: Callable[[], bool] = lambda: False
        self._times_s: dict[LoaderSettings, list[float]] = {}

    def run(self, present: LoaderSettings | None) -> None:
        self._look(self._as_in_grid(present) if present else self._limits.settings(0))
        self._look(self._best_predicted())
        while (following := next(self._unknown_neighbours(), None)) is not None and self._may_look:
            self._look(following)
        self._settle()

    @property
    def _may_look(self) -> bool:
        return len(self._times_s) < self.most and not self.is_enough()

    def _look(self, settings: LoaderSettings) -> None:
        if settings not in self._times_s:
            self._times_s[settings] = [self._measure(settings)]

    def _as_in_grid(self, present: LoaderSettings) -> LoaderSettings:
        """Pinning and persistence do not count: the program's own are kept, or given to all."""
        same = (one for one in self._grid if one.size == present.size)
        return next(same, present)

    def _time_s(self, settings: LoaderSettings) -> float:
        return min(self._times_s[settings])

    def _correction(self, settings: LoaderSettings) -> float | None:
        """Sending a batch is not known before there are workers: by how much others that were
        measured took longer than predicted. None: no other was."""
        alike = [
            self._time_s(one) / self._known[one]
            for one in self._times_s
            if one in self._known and bool(one.num_workers) == bool(settings.num_workers)
            if one != settings
        ]
        sound = [one for one in alike if math.isfinite(one)]
        return statistics.median(sound) if sound else None

    def _expected_s(self, settings: LoaderSettings) -> float:
        if settings in self._times_s:
            return self._time_s(settings)
        return self._known[settings] * (self._correction(settings) or 1.0)

    def _best_predicted(self) -> LoaderSettings:
        usual = [one for one in self._grid if not self._is_deep(one)]
        rates = [1.0 / self._expected_s(one) for one in usual]
        return usual[near_best(rates)]

    def _is_deep(self, settings: LoaderSettings) -> bool:
        return (settings.prefetch_factor or 0) > self._limits.prefetch_factors[0]

    def _unknown_neighbours(self) -> Iterator[LoaderSettings]:
        """Of the fastest so far: one worker more or fewer, the more promising first, then batches
        further ahead."""
        best = min(self._times_s, key=self._time_s)
        limits, ahead = self._limits, best.prefetch_factor
        ahead = ahead if ahead in limits.prefetch_factors else None
        counts = [best.num_workers + 1, max(0, best.num_workers - 1)]
        beside = [limits.settings(workers, ahead) for workers in counts]
        beside = [one for one in beside if one in self._known and one not in self._times_s]
        alike = [one for one in self._grid if one.num_workers == best.num_workers]
        deeper = [one for one in alike if one.size > best.size and one not in self._times_s]
        yield from sorted(beside, key=self._promise)
        yield from deeper

    def _promise(self, settings: LoaderSettings) -> tuple[float, int]:
        """Whatever is predicted alike to within 3 %: more workers first, for what the model leaves
        out (a worker that is late, other programs) makes more of them useful."""
        steps = math.log(self._expected_s(settings)) / -math.log(NEAR_BEST)
        return round(steps), -settings.num_workers

    def _settle(self) -> None:
        """Those that may be the best are measured again, in turns, forth and back."""
        for number in range(1, self._repeats):
            best_s = min(map(self._time_s, self._times_s))
            limit_s = best_s * (1.0 + max(_CLOSE, _DOUBT * self._noise()))
            close = [one for one in self._times_s if self._may_be_best(one, limit_s)]
            if len(close) < 2 or not math.isfinite(best_s) or self.is_enough():
                return
            for one in _forth_and_back(close, number):
                self._times_s[one].append(self._measure(one))

    def _may_be_best(self, settings: LoaderSettings, limit_s: float) -> bool:
        """One or two bad measurements are not believed where the model says otherwise."""
        times_s = self._times_s[settings]
        if self._time_s(settings) <= limit_s:
            return True
        factor = self._correction(settings)
        if settings not in self._known or factor is None or not math.isfinite(min(times_s)):
            return False
        return len(times_s) < _BELIEVED and self._known[settings] * factor <= limit_s

    def _noise(self) -> float:
        """How far measurements of one setting lie apart, as a share; 0: none was repeated yet."""
        repeated = [times for times in self._times_s.values() if len(times) > 1]
        apart = [max(times) / min(times) - 1.0 for times in repeated if math.isfinite(max(times))]
        return statistics.median(apart) if apart else 0.0

    def found(self) -> Found:
        best_s = min(map(self._time_s, self._times_s))
        near = [one for one in self._times_s if self._time_s(one) * NEAR_BEST <= best_s]
        known = {one: self._expected_s(one) for one in self._grid}
        return Found(min(near, key=lambda one: one.size), self._times_s, known)


def _forth_and_back(items: Sequence[LoaderSettings], number: int) -> Iterable[LoaderSettings]:
    return items if number % 2 == 0 else reversed(items)
