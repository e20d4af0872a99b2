"""The engine behind CodeOptimizer.optimize_data_loading: searches, proves, and gives the loader."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

from stepscope.advise.loading import loader_costs
from stepscope.advise.simulate import Loader, fitted
from stepscope.collect.envelope import payload_bytes
from stepscope.collect.limits import OwnLimits
from stepscope.collect.loading import settings_of, undisturbed
from stepscope.model.loading import DataLoadingProfile
from stepscope.model.optimization import LEAST_GAIN, Optimization, StepCosts
from stepscope.model.trial import Speedup
from stepscope.session.loader_trials import LoaderTrials, Trials
from stepscope.session.loading import Config
from stepscope.session.proving import prove_for
from stepscope.tune.loader_search import (
    Found,
    Limits,
    LoaderSettings,
    loader_model,
    predicted_s,
    search_loader,
)
from stepscope.tune.loading.settings import with_settings
from stepscope.tune.same_batches import compare_batches, why_no_workers

__all__ = ["OptimizedLoader", "optimize_loader", "played_loader"]

_LEAST_BATCHES = 4  # of a pass: fewer cannot be measured
_MOST_WORKERS = 16
_BATCHES_EACH = 4  # of a pass, at least, for each worker: starting one takes longer than a few
_SLOWEST_S = 0.5  # a batch
_SEARCH_S = 10.0  # after that, no further setting is measured
_MOST_SETTINGS = 5  # that are measured
_REPEATS = 2  # of close ones: the choice is held against the present setting again
_ALONE = "it was measured alone: no training was seen that would wait for it"
_MEMORY_SHARE = 0.5  # of what is left: workers and their batches may take it


class OptimizedLoader(NamedTuple):
    """`loader`: the program's own where nothing else was proved faster."""

    loader: Any
    record: Optimization


def optimize_loader(
    loader: Any,
    config: Config,
    step: StepCosts | None = None,
    trials: Trials | None = None,
) -> OptimizedLoader:
    """A loader with the same samples in the same order that was measured to be faster, or the same
    one and why. trials: how it is measured; None: really."""
    base = Optimization(target="data loading", subject=_name(loader))
    try:
        return _Optimizing(loader, step, base, trials or LoaderTrials(loader, step, config)).run()
    except Exception as error:  # noqa: BLE001 - the border with the user's program
        why = f"Trying failed, so it stays as it is: {type(error).__name__}: {error}"
        return OptimizedLoader(loader, replace(base, reason=why[:500]))


class _Optimizing:
    def __init__(
        self, loader: Any, step: StepCosts | None, base: Optimization, trials: Trials
    ) -> None:
        self._loader, self._step, self._base, self._trials = loader, step, base, trials

    def run(self) -> OptimizedLoader:
        if refusal := self._refusal():
            return self._stays(refusal)
        looks: list[DataLoadingProfile] = []
        against = why_no_workers(self._loader.dataset, lambda: looks.append(self._trials.look()))
        if against:
            return self._stays(against)
        (profile,) = looks
        if (profile.avg_batch_time or 0.0) > _SLOWEST_S:
            return self._stays(
                f"A batch takes {profile.avg_batch_time:.1f} s: trying settings would take minutes."
                " `stepscope tune` does that."
            )
        model, limits = played_loader(profile, self._step), self._limits(profile)
        present = _present(self._loader)
        expected = _best_gain(model, limits, present)
        if model is not None and expected < LEAST_GAIN:
            return self._stays(self._nothing_to_gain(expected), predicted=expected)
        ends = time.monotonic() + _SEARCH_S
        found = search_loader(
            self._trials.measure,
            model,
            limits,
            present,
            repeats=_REPEATS,
            most=_MOST_SETTINGS,
            is_enough=lambda: time.monotonic() > ends,
        )
        return self._judge(found, model, present, _start_matters(profile, len(self._loader)))

    def _refusal(self) -> str:
        settings = settings_of(self._loader)
        if not settings:
            return "It is no DataLoader: its settings are not known."
        if settings["iterable"]:
            return (
                "The dataset is iterable: how many workers there are decides who reads what, so"
                " that other workers would give other samples."
            )
        if len(self._loader) < _LEAST_BATCHES:
            return f"A pass has {len(self._loader)} batches: too few to measure."
        return ""

    def _limits(self, profile: DataLoadingProfile) -> Limits:
        figures = profile.figures
        cpus = (figures.cpus if figures is not None else None) or 1.0
        busy = (figures.busy_share if figures is not None else None) or 0.0
        most = max(2, int(2 * cpus)) if busy >= 0.5 else min(_MOST_WORKERS, max(4, int(4 * cpus)))
        most = min(most, max(2, len(self._loader) // _BATCHES_EACH))
        nearest = OwnLimits().nearest()
        return Limits(
            most_workers=max(most, self._loader.num_workers),
            pin_memory=self._loader.pin_memory,
            memory_bytes=nearest.left_bytes * _MEMORY_SHARE if nearest is not None else 0.0,
            worker_bytes=(profile.worker_memory_mb or 0.0) * 2**20,
            batch_bytes=float(_batch_bytes(self._loader)),
        )

    def _judge(
        self, found: Found, model: Loader | None, present: LoaderSettings, start_matters: bool
    ) -> OptimizedLoader:
        tried = {str(one): _finite(found.time_s(one)) for one in found.times_s}
        predicted = None
        if model is not None:
            predicted = predicted_s(model, present) / predicted_s(model, found.best)
        told = replace(self._base, tried=tried, predicted=predicted)
        if found.best == present or (found.best.size == present.size and not start_matters):
            return OptimizedLoader(
                self._loader, replace(told, reason=f"Of {len(tried)} settings it is the best.")
            )
        measure = self._trials.measure
        told = replace(told, change=f"DataLoader(..., {found.best})")
        told, is_proved = prove_for(
            told, "batch_s", lambda: measure(present), lambda: measure(found.best)
        )
        if not is_proved:
            return OptimizedLoader(self._loader, replace(told, reason=_not_proved(told.measured)))
        return self._given(found.best, told)

    def _given(self, best: LoaderSettings, told: Optimization) -> OptimizedLoader:
        """The new loader, if it gives the same batches."""
        with warnings.catch_warnings():  # torch's, about more workers than CPUs: they were measured
            warnings.simplefilter("ignore")
            made = with_settings(self._loader, best.arguments())
            same = compare_batches(self._loader, made)
        # It would warn at every pass of more workers than CPUs; these were measured.
        vars(made)["check_worker_number_rationality"] = _as_measured
        if not same.are_same:
            return OptimizedLoader(self._loader, replace(told, reason=f"Not kept: {same.why}."))
        record = replace(
            told,
            kept=True,
            reason=f"It was measured to be {told.measured}.",
            notes=(same.why,) if self._step is not None else (same.why, _ALONE),
            undo="Use the loader that was given.",
        )
        return OptimizedLoader(made, record)

    def _stays(self, reason: str, predicted: float | None = None) -> OptimizedLoader:
        return OptimizedLoader(
            self._loader, replace(self._base, reason=reason, predicted=predicted)
        )

    def _nothing_to_gain(self, expected: float) -> str:
        beside = " beside the step of training" if self._step is not None else ""
        return f"Other settings would make it {expected:.2f} times as fast{beside} at best."


def played_loader(profile: DataLoadingProfile, step: StepCosts | None) -> Loader | None:
    """As it was measured alone, with the step of training beside it; None: too little is known."""
    figures = profile.figures
    costs = None if figures is None else loader_costs(figures)
    if costs is None or figures is None or not figures.batch_s:
        return None
    alone = fitted(loader_model(costs), figures.workers, 1.0 / figures.batch_s)
    beside = step or StepCosts(0.0, 0.0)
    return replace(
        alone, main_s=alone.main_s + beside.wall_s, main_cpu_s=alone.main_cpu_s + beside.cpu_s
    )


def _start_matters(profile: DataLoadingProfile, batches: int) -> bool:
    """Whether starting the workers is more of a pass than the least gain: then it is worth asking
    whether they should stay."""
    pass_s = (profile.avg_batch_time or 0.0) * batches
    return (profile.startup_seconds or 0.0) > (LEAST_GAIN - 1.0) * pass_s


def _as_measured() -> None:
    """In the place of torch's check of the number of workers."""


def _present(loader: Any) -> LoaderSettings:
    return LoaderSettings(
        loader.num_workers, loader.prefetch_factor, loader.persistent_workers, loader.pin_memory
    )


def _best_gain(model: Loader | None, limits: Limits, present: LoaderSettings) -> float:
    """At best: what sending a batch costs is known only where workers send them already."""
    if model is None:
        return math.inf
    now_s = predicted_s(model, present)
    usual = {limits.settings(workers) for workers in range(limits.most_workers + 1)}
    return now_s / min(predicted_s(model, one) for one in usual)


def _not_proved(speedup: Speedup | None) -> str:
    if speedup is None:
        return "It could not be measured."
    if speedup.low <= 1.0:
        return f"Inconclusive: it was measured to be {speedup}."
    return f"Too little to matter: it was measured to be {speedup}."


def _batch_bytes(loader: Any) -> int:
    """0: not known, where the dataset may count on being read in workers."""
    if loader.num_workers:
        return 0
    with undisturbed(loader) as mine:
        return payload_bytes(next(iter(mine), None))


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _name(loader: Any) -> str:
    dataset = getattr(loader, "dataset", loader)
    return type(dataset).__name__
