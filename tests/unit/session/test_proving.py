from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from stepscope.model.optimization import LEAST_GAIN
from stepscope.session.proving import prove


def taking(log: list[str], name: str, *times_s: float) -> Callable[[], float]:
    """These, over and over."""

    def measure() -> float:
        log.append(name)
        return times_s[log.count(name) % len(times_s)]

    return measure


def test_both_take_turns_forth_and_back_and_a_clear_gain_needs_three_rounds() -> None:
    log: list[str] = []
    speedup, before, after = prove(taking(log, "a", 2.0, 2.1), taking(log, "b", 1.0, 1.05))
    assert "".join(log) == "abbaab"
    assert (len(before), len(after)) == (3, 3)
    assert speedup is not None
    assert speedup.is_proved(LEAST_GAIN)
    assert speedup.low < 2.0 < speedup.high or speedup.middle == 2.0


def test_what_is_in_doubt_is_measured_for_longer() -> None:
    log: list[str] = []
    speedup, before, _ = prove(taking(log, "a", 1.0), taking(log, "b", 0.6, 1.4, 0.8))
    assert len(before) == 9
    assert speedup is not None
    assert not speedup.is_proved(LEAST_GAIN)


def test_no_difference_is_seen_at_once() -> None:
    speedup, before, _ = prove(taking([], "a", 1.0), taking([], "b", 1.0))
    assert len(before) == 3
    assert speedup == (1.0, 1.0, 1.0, 3)


def test_a_gain_of_4_percent_is_too_little_however_sure() -> None:
    speedup, *_ = prove(taking([], "a", 1.04), taking([], "b", 1.0))
    assert speedup is not None
    assert speedup.low > 1.0
    assert not speedup.is_proved(LEAST_GAIN)


def test_what_never_takes_any_time_cannot_be_compared() -> None:
    speedup, *_ = prove(taking([], "a", 0.0), taking([], "b", 0.0))
    assert speedup is None


@pytest.mark.parametrize("noise", [0.03, 0.1, 0.3])
def test_where_there_is_no_difference_a_gain_is_rarely_claimed(noise: float) -> None:
    random = Random(1)

    def measure() -> float:
        return math.exp(random.gauss(0.0, noise))

    claimed = 0
    for _ in range(300):
        speedup, *_ = prove(measure, measure)
        claimed += speedup is not None and speedup.is_proved(LEAST_GAIN)
    assert claimed <= 15, "5 % of them"


def test_twice_as_fast_is_found_in_noise_of_10_percent() -> None:
    random = Random(1)

    def taking(seconds: float) -> Callable[[], float]:
        return lambda: seconds * math.exp(random.gauss(0.0, 0.1))

    found = [prove(taking(2.0), taking(1.0))[0] for _ in range(50)]
    assert all(one is not None and one.is_proved(LEAST_GAIN) for one in found)
