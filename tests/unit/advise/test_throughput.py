from __future__ import annotations

import pytest

from stepscope.advise.throughput import LoaderCosts, best_workers, throughput

COSTS = LoaderCosts(worker_cpu_s=0.3, worker_blocked_s=0.0, main_s=0.1, main_cpu_s=0.1, cores=4)


def test_without_workers_everything_comes_one_after_the_other() -> None:
    assert throughput(COSTS, 0) == pytest.approx(1 / 0.4)


def test_workers_set_the_pace_until_the_cpus_or_the_training_thread_do() -> None:
    assert throughput(COSTS, 2) == pytest.approx(2 / 0.3)
    assert throughput(COSTS, 8) == pytest.approx(1 / 0.1)
    two_cores = LoaderCosts(0.3, 0.0, 0.1, 0.1, cores=2)
    assert throughput(two_cores, 8) == pytest.approx(2 / 0.4)


def test_sending_batches_costs_workers_and_the_training_thread() -> None:
    sending = LoaderCosts(0.3, 0.0, 0.1, 0.1, cores=64, serialise_s=0.1, unpickle_s=0.1)
    assert throughput(sending, 1) == pytest.approx(1 / 0.4)
    assert throughput(sending, 32) == pytest.approx(1 / 0.2)


def test_the_smallest_number_of_workers_near_the_best_is_chosen() -> None:
    assert best_workers(COSTS, 16) == 3
    assert best_workers(LoaderCosts(0.01, 0.0, 0.1, 0.1, cores=4), 16) == 1
    assert best_workers(LoaderCosts(0.0, 1.0, 0.1, 0.1, cores=2), 16) == 10
