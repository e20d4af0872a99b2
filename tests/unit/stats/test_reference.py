from __future__ import annotations

import math
import random

import pytest

from stepscope.stats.reference import BLOCK, BLOCKS, FEWEST, Reference

DELTA = 0.05


def filled(values: list[float]) -> Reference:
    reference = Reference(DELTA)
    for value in values:
        reference.update(value)
    return reference


def normal(count: int, sigma: float, seed: int = 0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(1.0, sigma) for _ in range(count)]


def test_it_is_ready_when_there_are_enough_values() -> None:
    assert not filled([1.0] * (FEWEST - 1)).is_ready
    assert filled([1.0] * FEWEST).is_ready


def test_its_middle_is_that_of_the_whole_series_however_long() -> None:
    rising = [step / 10_000 for step in range(10_000)]
    assert filled(rising).middle == pytest.approx(0.5, abs=0.05)


def test_a_first_block_above_all_others_is_forgotten() -> None:
    calm = [1.0 + 0.001 * (step % 3) for step in range(10 * BLOCK)]
    assert filled([5.0] * BLOCK + calm).error(10) == pytest.approx(filled(calm).error(10), rel=0.1)


def test_evidence_speaks_for_the_side_that_a_value_lies_on() -> None:
    reference = filled(normal(BLOCK * BLOCKS, 0.02))
    slower, faster = reference.evidence(1.0 + DELTA)
    assert slower > 0 > faster
    slower, faster = reference.evidence(1.0 - DELTA)
    assert faster > 0 > slower
    assert max(reference.evidence(reference.middle)) < 0


def test_a_wild_value_says_no_more_than_one_that_is_clipped() -> None:
    reference = filled(normal(BLOCK * BLOCKS, 0.02))
    assert reference.evidence(100.0) == reference.evidence(2.0)


def test_the_error_of_a_shift_is_that_of_a_median() -> None:
    reference = filled(normal(BLOCK * BLOCKS, 0.03))
    assert reference.error(16) == pytest.approx(1.2533 * 0.03 / math.sqrt(16), rel=0.35)


def test_noise_that_lasts_makes_the_error_larger() -> None:
    rng = random.Random(1)
    lasting, value = [], 0.0
    for _ in range(BLOCK * BLOCKS):
        value = 0.8 * value + rng.gauss(0.0, 0.02 * 0.6)  # a standard deviation of 0.02
        lasting.append(1.0 + value)
    assert filled(lasting).error(16) > 1.8 * filled(normal(BLOCK * BLOCKS, 0.02)).error(16)


def test_noise_that_has_grown_counts_as_it_is_now() -> None:
    reference = filled(normal(BLOCK * BLOCKS, 0.01))
    before = reference.error(16)
    reference.look_at_noise(normal(100, 0.05, seed=1))
    assert reference.error(16) > 3 * before
    reference.look_at_noise(normal(100, 0.01, seed=2))
    assert reference.error(16) == pytest.approx(before, rel=0.35)


def test_long_values_and_short_ones_in_turn_are_taken_together() -> None:
    assert filled([1.0 + 0.3 * (step % 2) for step in range(BLOCK * BLOCKS)]).period > 1
    assert filled(normal(BLOCK * BLOCKS, 0.02)).period == 1


def test_a_shift_is_found_among_values_of_two_sizes() -> None:
    sizes = [1.0 + 0.3 * (step % 2) for step in range(BLOCK * BLOCKS)]
    window = [value + 0.04 for value in sizes[:15]]
    assert filled(sizes).shift(window) == pytest.approx(0.04)
    assert filled(sizes).shift(sizes[:15]) == pytest.approx(0.0)
