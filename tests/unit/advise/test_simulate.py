from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.advise.simulate import BatchWork, Loader, choose_workers, fitted, simulated
from stepscope.advise.throughput import LoaderCosts, throughput

COMPUTING = Loader([BatchWork(0.3, 0.0)], main_s=0.1, main_cpu_s=0.1, cores=4)


@pytest.mark.parametrize("workers", range(6))
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_the_formula_is_the_bound_that_playing_comes_near(workers: int, cores: int) -> None:
    costs = LoaderCosts(0.2, 0.1, 0.05, 0.05, cores, serialise_s=0.02, unpickle_s=0.01)
    loader = Loader([BatchWork(0.2, 0.1)], 0.05, 0.05, cores, send_s=0.02, receive_s=0.01)
    assert 0.8 < simulated(loader, workers) / throughput(costs, workers) < 1.01


def test_blocked_workers_need_no_cpu() -> None:
    waiting = Loader([BatchWork(0.0, 0.4)], main_s=0.1, main_cpu_s=0.1, cores=1)
    assert simulated(waiting, 4) == pytest.approx(10.0, rel=0.02)
    assert choose_workers(waiting, 16) == 6, "four, and two to spare"


def test_a_model_that_uses_all_cpus_shares_them_with_the_workers() -> None:
    wide = Loader([BatchWork(0.1, 0.0)], main_s=0.1, main_cpu_s=0.2, cores=2)
    assert simulated(wide, 4) == pytest.approx(2 / 0.3, rel=0.05)  # 0.3 s of CPU a batch


def test_slow_batches_hold_up_those_behind_them_unless_order_does_not_matter() -> None:
    skewed = Loader(
        [BatchWork(0.0, 1.0), *[BatchWork(0.0, 0.01)] * 9], main_s=0.05, main_cpu_s=0.0, cores=4
    )
    in_order = simulated(skewed, 4)
    free = simulated(replace(skewed, in_order=False), 4)
    assert in_order < 0.75 * 20
    assert free > 1.2 * in_order
    assert simulated(replace(skewed, prefetch=8), 4) > in_order


def test_the_smallest_number_of_workers_near_the_best_is_chosen_and_some_to_spare() -> None:
    assert choose_workers(COMPUTING, 16) == 5
    assert choose_workers(COMPUTING, 3) == 3
    dear_to_send = Loader([BatchWork(0.01, 0.0)], 0.1, 0.1, 4, send_s=0.1, receive_s=0.2)
    assert choose_workers(dear_to_send, 8) == 0


def test_other_load_takes_its_share_of_the_cpus() -> None:
    crowded = replace(COMPUTING, cores=2, background=3.0)
    assert simulated(crowded, 0) == pytest.approx(2.5 / 2)  # one of four threads on two CPUs


def test_the_load_beside_it_is_found_from_the_measured_rate() -> None:
    beside = fitted(replace(COMPUTING, cores=2), 0, 1.25)
    assert beside.background == pytest.approx(3.0, abs=0.1)
    assert fitted(COMPUTING, 0, 99.0) == COMPUTING
