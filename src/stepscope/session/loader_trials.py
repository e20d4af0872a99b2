"""How long a batch of a loader takes with other settings, beside a step that is played."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from stepscope.collect.loading import settle, undisturbed
from stepscope.model.loading import DataLoadingProfile
from stepscope.model.optimization import StepCosts
from stepscope.session.loading import Config, profile_loader
from stepscope.tune.loader_search import LoaderSettings
from stepscope.tune.loading.settings import with_settings
from stepscope.tune.same_batches import shut_down

__all__ = ["LoaderTrials", "Trials", "play_step"]

_TRIAL_S = 0.3
_LOOK = 10  # batches, for the costs of one
_LEAST = 8  # batches
_HANG_S = 60.0  # a worker that gives nothing for so long is taken for dead
_PIECE = bytes(1 << 16)  # hashed where a CPU is to be busy, which lets other threads run


class Trials(Protocol):
    """What is asked of a loader before it is changed."""

    def look(self) -> DataLoadingProfile: ...
    def measure(self, settings: LoaderSettings) -> float: ...


class LoaderTrials:
    """Real ones. Each takes about `trial_s`, and what it takes to start the workers."""

    def __init__(
        self, loader: Any, step: StepCosts | None, config: Config, trial_s: float = _TRIAL_S
    ) -> None:
        self._loader, self._config, self._trial_s = loader, config, trial_s
        self._step = step or StepCosts(0.0, 0.0)

    def look(self) -> DataLoadingProfile:
        """What a batch costs with the present settings, with nobody using it."""
        return profile_loader(self._loader, _LOOK, self._config, self._step.wall_s or None)

    def measure(self, settings: LoaderSettings) -> float:
        """Seconds from one batch to the next once it runs; inf: it does not work."""
        try:
            with warnings.catch_warnings():  # torch's, about more workers than CPUs
                warnings.simplefilter("ignore")
                made = with_settings(self._loader, settings.arguments())
                made.timeout = _HANG_S if settings.num_workers else 0
                with undisturbed(made) as mine, play_step(self._step) as step:
                    return self._timed(mine, settings, step)
        except Exception:  # noqa: BLE001 - the dataset is the user's, and may not bear workers
            return math.inf

    def _timed(self, loader: Any, settings: LoaderSettings, step: Callable[[], None]) -> float:
        """In the middle of a pass, once what was prepared while workers started is used up. Passes
        that are too short for that are timed as a whole: with their start, unless workers stay."""
        ahead = settings.num_workers * ((settings.prefetch_factor or 0) + 1)
        least = max(_LEAST, 2 * settings.num_workers)
        iterator = iter(loader)
        try:
            warm = itertools.islice(iterator, max(2, ahead))
            took_s, batches = self._used(iterator, step, least) if _use(warm, step) else (0.0, 0)
        finally:
            shut_down(iterator)
        if batches < least or took_s < self._trial_s / 2:
            return self._whole_passes(loader, step)
        return took_s / batches

    def _used(self, iterator: Any, step: Callable[[], None], least: int) -> tuple[float, int]:
        """(seconds, batches): until it was long enough, or there are no more."""
        began, took_s, batches = time.perf_counter(), 0.0, 0
        for _ in iterator:
            step()
            batches, took_s = batches + 1, time.perf_counter() - began
            if batches >= least and took_s >= self._trial_s:
                break
        return took_s, batches

    def _whole_passes(self, loader: Any, step: Callable[[], None]) -> float:
        loader.__dict__["_iterator"] = None  # its workers have ended
        if loader.persistent_workers:
            _use(loader, step)
        began, took_s, batches = time.perf_counter(), 0.0, 0
        while took_s < self._trial_s:
            used = _use(loader, step)
            batches, took_s = batches + used, time.perf_counter() - began
            if not used:
                return math.inf
        shut_down(loader.__dict__.get("_iterator"))
        return took_s / batches


def _use(batches: Any, step: Callable[[], None]) -> int:
    """How many there were."""
    used = 0
    for _ in batches:
        step()
        used += 1
    return used


@contextmanager
def play_step(costs: StepCosts) -> Iterator[Callable[[], None]]:
    """Something that takes as long as a step of training, and as many CPUs, and does nothing."""
    if costs.wall_s <= 0:
        yield settle
        return
    threads = max(1, math.ceil(costs.cpu_s / costs.wall_s - 0.25))
    each_s = min(costs.wall_s, costs.cpu_s / threads)
    rest_s = costs.wall_s - each_s
    with ThreadPoolExecutor(max_workers=threads) as pool:

        def step() -> None:
            helpers = [pool.submit(_burn, each_s) for _ in range(threads - 1)]
            _burn(each_s)
            for helper in helpers:
                helper.result()
            if rest_s > 0:
                time.sleep(rest_s)

        yield step


def _burn(cpu_s: float) -> None:
    """So much CPU time: where others have the CPU too, it takes longer, as training would."""
    ends = time.thread_time() + cpu_s
    while time.thread_time() < ends:
        hashlib.blake2b(_PIECE)
