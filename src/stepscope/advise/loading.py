"""What to change about a loader that was profiled by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.advise.throughput import LoaderCosts, best_workers, throughput
from stepscope.model.loading import DataLoadingBottleneck, DataLoadingProfile, LoadingFigures

__all__ = ["best_profile", "loader_costs", "suggest_loading", "with_best_workers"]

# Sending a batch was not measured. At best it costs nothing; the slowest form on record, numpy
# arrays out of collate, took 8.2 ms for 3 MB.
_IPC_BOUND_S = 0.0082
_MODEL_ERROR = 0.3  # how far the model was off where workers burn CPU beside other load
_MOST_WORKERS = 16
_AS_GOOD = 0.97  # of two settings this near, the cheaper one
_B = DataLoadingBottleneck

_ADVICE = {
    _B.SLOW_DISK_IO: "Store it in fewer, larger files on a nearer disk, or keep it in memory",
    _B.SLOW_DATA_SOURCE: "Find what __getitem__ waits for, and fetch ahead or keep the answers",
    _B.CPU_BOUND_PREPROCESSING: "Do less for each sample: precompute, keep results, __getitems__",
    _B.MEMORY_PRESSURE: "Use fewer workers and a smaller prefetch_factor, or cache less",
    _B.GPU_TRANSFER_OVERHEAD: "Move batches in the loop: pin_memory=True, non_blocking=True",
    _B.WORKER_STARTUP: "persistent_workers=True, and fewer imports in the dataset's module",
}


def with_best_workers(figures: LoadingFigures) -> LoadingFigures:
    """The same with the number of workers that would make most batches, by what one costs."""
    costs = loader_costs(figures)
    if costs is None:
        return figures
    busy = figures.busy_share or 0.0
    limit = max(1, int(2 * costs.cores)) if busy >= 0.5 else _MOST_WORKERS
    workers = best_workers(costs, limit)
    least = throughput(_at_worst(figures, costs), workers) / (1 + _MODEL_ERROR)
    rates = least, throughput(costs, workers)
    if not all(0 < rate < float("inf") for rate in rates):
        return figures
    if figures.workers and figures.made_s and 1.0 / figures.made_s >= least:
        return figures  # sending is what takes time: no worker at all would do as well
    return figures._replace(best_workers=workers, best_batches_per_s=rates)


def loader_costs(figures: LoadingFigures) -> LoaderCosts | None:
    """Of a batch; None: too little was measured."""
    busy, waits, batch_s = figures.busy_share, figures.waiting_share, figures.batch_s
    if busy is None or waits is None or not figures.cpus or not batch_s:
        return None
    makers = figures.workers or 1
    received_s = (figures.program_cores or 0.0) * batch_s if figures.workers else 0.0
    return LoaderCosts(
        worker_cpu_s=makers * batch_s * busy,
        worker_blocked_s=makers * batch_s * waits,
        main_s=received_s,
        main_cpu_s=received_s,
        cores=figures.cpus,
    )


def _at_worst(figures: LoadingFigures, costs: LoaderCosts) -> LoaderCosts:
    """The same, with CPUs as short as they were, and with batches as dear to send as can be where
    none were sent."""
    makers = figures.workers or 1
    delayed_s = makers * figures.batch_s * figures.delay_share
    worst = costs._replace(worker_cpu_s=costs.worker_cpu_s + delayed_s)
    if not figures.workers:
        return worst._replace(serialise_s=_IPC_BOUND_S / 2, unpickle_s=_IPC_BOUND_S / 2)
    return worst._replace(
        main_s=costs.main_s + (figures.program_delay_cores or 0.0) * figures.batch_s
    )


def suggest_loading(
    found: Iterable[DataLoadingBottleneck], figures: LoadingFigures
) -> tuple[str, ...]:
    """In the order of the bottlenecks."""
    advice = []
    for one in found:
        if one is _B.INSUFFICIENT_WORKERS:
            workers = figures.best_workers
            advice.append(f"DataLoader(..., num_workers={workers}, persistent_workers=True)")
        else:
            advice.append(_ADVICE[one])
    return tuple(advice)


def best_profile(profiles: Sequence[DataLoadingProfile]) -> DataLoadingProfile:
    """The one that delivers most samples a second; among those within 3 % of it the one with
    fewest workers, then with least memory."""
    most = max(one.score for one in profiles)
    near = [one for one in profiles if one.score >= _AS_GOOD * most]
    return min(near, key=lambda one: (one.num_workers, one.memory_usage_mb or 0.0, -one.score))
