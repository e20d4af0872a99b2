from __future__ import annotations

import math
import random

import pytest

from stepscope.analyze.compare_ratio import Measured, judge, ratio_of, runs_needed
from stepscope.model.comparison import Judgement, Ratio


def at(values: list[float], first: float, step: float = 2.0) -> list[Measured]:
    return [Measured(value, first + step * place) for place, value in enumerate(values)]


def untimed(*values: float) -> list[Measured]:
    return [Measured(value) for value in values]


def test_one_run_each_gives_a_ratio_without_an_interval() -> None:
    found = ratio_of(untimed(10.0), untimed(11.0))

    assert found is not None
    assert found.middle == pytest.approx(1.1)
    assert (found.low, found.high) == (None, None)


def test_nothing_or_nothing_positive_gives_no_ratio() -> None:
    assert ratio_of([], untimed(1.0)) is None
    assert ratio_of(untimed(0.0, 0.0), untimed(1.0, 1.0)) is None


def test_runs_in_turns_on_a_drifting_machine_are_compared_pair_by_pair() -> None:
    drift = [10.0, 13.0, 9.0, 12.0, 15.0]
    new = [1.05 * value for value in drift]
    new[0] *= 1.004

    found = ratio_of(at(drift, 0.0), at(new, 1.0))

    assert found is not None
    assert found.by == "pairs"
    assert found.low is not None
    assert found.low > 1.04


@pytest.mark.parametrize("first", [100.0, -100.0])
def test_groups_that_ran_one_after_the_other_have_no_pairs(first: float) -> None:
    drift = [10.0, 13.0, 9.0, 12.0, 15.0]

    found = ratio_of(at(drift, 0.0), at([1.05 * value for value in drift], first))

    assert found is not None
    assert found.by == "runs"


def on_a_machine(
    rng: random.Random, times: float = 1.0, follows: float = 0.8, slower: float = 1.0
) -> list[Measured]:
    """Five runs that differ by 1 %, on a machine whose speed differs by 5 %."""
    speeds = [20.0 * slower * rng.lognormvariate(0.0, 0.05) for _ in range(5)]
    noise = [rng.lognormvariate(0.0, 0.01) for _ in range(5)]
    return [
        Measured(times * speed**follows * own, None, speed)
        for speed, own in zip(speeds, noise, strict=True)
    ]


def test_runs_that_follow_the_speed_of_the_machine_are_compared_at_equal_speed() -> None:
    rng = random.Random(1)

    found = ratio_of(on_a_machine(rng), on_a_machine(rng, 1.05, slower=1.1))

    assert found is not None
    assert found.by == "speed"
    assert found.low is not None
    assert 1.0 < found.low < 1.05


@pytest.mark.parametrize("follows", [0.0, -0.8])
def test_runs_that_do_not_follow_the_speed_are_compared_as_they_are(follows: float) -> None:
    found = ratio_of(
        on_a_machine(random.Random(5), follows=follows),
        on_a_machine(random.Random(6), follows=follows),
    )

    assert found is not None
    assert found.by == "runs"


def test_a_run_whose_speed_is_not_known_keeps_all_from_being_compared_at_equal_speed() -> None:
    rng = random.Random(1)
    base = on_a_machine(rng)
    base[2] = base[2]._replace(reference_us=None)

    found = ratio_of(base, on_a_machine(rng, 1.05))

    assert found is not None
    assert found.by == "runs"


@pytest.mark.parametrize("follows", [0.0, 0.2, 0.8])
def test_choosing_the_way_to_compare_gives_few_false_alarms(follows: float) -> None:
    rng = random.Random(4)
    alarms = 0
    for _ in range(1000):
        found = ratio_of(on_a_machine(rng, follows=follows), on_a_machine(rng, follows=follows))
        alarms += judge(found, 0.0) is Judgement.WORSE
    assert alarms <= 30  # 12.5 are expected of one way alone


def test_turns_in_which_neighbours_are_not_alike_are_no_reason_for_pairs() -> None:
    found = ratio_of(at([10.0, 10.2, 9.9, 10.1], 0.0), at([10.2, 9.9, 10.1, 10.0], 1.0))

    assert found is not None
    assert found.by == "runs"


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (Ratio(1.05, 1.02, 1.08), Judgement.WORSE),
        (Ratio(1.03, 1.001, 1.06), Judgement.WORSE),  # at least half of 5 %
        (Ratio(1.02, 1.01, 1.03), Judgement.SAME),  # real, and too small to matter
        (Ratio(1.02, 0.99, 1.049), Judgement.SAME),
        (Ratio(1.04, 0.99, 1.09), Judgement.UNCLEAR),
        (Ratio(1.00, 0.90, 1.10), Judgement.UNCLEAR),
        (Ratio(0.90, 0.85, 0.95), Judgement.BETTER),
        (Ratio(0.99, 0.98, 0.999), Judgement.SAME),
        (Ratio(1.2), Judgement.UNCLEAR),
        (None, Judgement.UNCLEAR),
    ],
)
def test_what_a_ratio_proves_about_five_percent(ratio: Ratio | None, expected: Judgement) -> None:
    assert judge(ratio, 0.05) is expected


def test_a_limit_of_nothing_takes_every_proved_change() -> None:
    assert judge(Ratio(1.002, 1.001, 1.003), 0.0) is Judgement.WORSE


def test_the_runs_that_are_said_to_be_needed_give_an_interval_that_is_narrow_enough() -> None:
    rng = random.Random(5)
    spread = 0.03

    def values(count: int) -> list[Measured]:
        return untimed(*(rng.lognormvariate(0.0, spread) for _ in range(count)))

    found = ratio_of(values(5), values(5))
    assert found is not None
    needed = runs_needed(found, 5, 0.05)
    assert needed is not None
    assert needed > 5
    halves = []
    for _ in range(50):
        again = ratio_of(values(needed), values(needed))
        assert again is not None
        assert again.low is not None
        assert again.high is not None
        halves.append(math.log(again.high / again.low) / 2)
    assert sum(halves) / len(halves) < math.log(1.05)


def test_runs_that_differ_wildly_ask_for_more_than_can_be_given() -> None:
    assert runs_needed(Ratio(1.0, 0.2, 5.0), 5, 0.05) is None
    assert runs_needed(Ratio(1.0), 1, 0.05) is None
