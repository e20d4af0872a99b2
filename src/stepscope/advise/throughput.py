"""How fast a loop would go with other loader settings.

A batch costs a worker `worker_cpu_s` and `worker_blocked_s`, and `serialise_s` to send. It costs
the training process `unpickle_s` to receive, `main_s` to use, and `main_cpu_s` of all its CPUs.
Whatever is scarcest sets the pace: the workers, the CPUs or the training thread.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NEAR_BEST", "LoaderCosts", "best_workers", "throughput"]

NEAR_BEST = 0.97  # the smallest number of workers within 3 % of the best is chosen


class LoaderCosts(NamedTuple):
    """Seconds a batch, of one rank; `cores`: CPUs that this rank may use."""

    worker_cpu_s: float
    worker_blocked_s: float
    main_s: float
    main_cpu_s: float
    cores: float
    serialise_s: float = 0.0
    unpickle_s: float = 0.0


def throughput(costs: LoaderCosts, workers: int) -> float:
    """Batches a second.

    >>> costs = LoaderCosts(0.3, 0.0, 0.1, 0.1, cores=4)
    >>> [round(throughput(costs, workers), 2) for workers in (0, 1, 2, 3, 4)]
    [2.5, 3.33, 6.67, 10.0, 10.0]
    """
    made_s = costs.worker_cpu_s + costs.worker_blocked_s
    if workers == 0:
        return _per_second(made_s + costs.main_s)
    sent_s = costs.serialise_s
    on_cpus_s = costs.worker_cpu_s + sent_s + costs.unpickle_s + costs.main_cpu_s
    return min(
        workers * _per_second(made_s + sent_s),
        costs.cores * _per_second(on_cpus_s),
        _per_second(costs.unpickle_s + costs.main_s),
    )


def best_workers(costs: LoaderCosts, limit: int) -> int:
    """The smallest number of workers, from 1 to `limit`, that comes near the best."""
    rates = [throughput(costs, workers) for workers in range(1, limit + 1)]
    return next(n for n, rate in enumerate(rates, 1) if rate >= max(rates) * NEAR_BEST)


def _per_second(seconds: float) -> float:
    return 1.0 / seconds if seconds > 0 else float("inf")
