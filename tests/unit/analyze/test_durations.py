from __future__ import annotations

import pytest

from stepscope.analyze import durations
from stepscope.analyze.durations import Durations
from stepscope.stats.quantiles import quantile


def of(steps: list[int]) -> Durations:
    found = Durations()
    for step in steps:
        found.update(step)
    return found


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(durations, "MOST", 4_000)
    return 4_000


def test_a_short_run_has_every_step_in_order() -> None:
    assert list(of([5, 3, 9]).sample()) == [5, 3, 9]
    assert list(Durations().sample()) == []


def test_a_long_run_is_counted_exactly_and_sampled(few: int) -> None:
    found = of([1000 + step % 7 for step in range(100_000)])
    assert found.count == 100_000
    assert few // 2 <= len(found.sample()) <= few + 3


def test_the_first_the_shortest_and_the_longest_step_stay(few: int) -> None:
    steps = [1000] * 50_000
    steps[0], steps[20_001], steps[30_002] = 7000, 3, 90_000
    found = of(steps).sample()
    assert (found[0], min(found), max(found)) == (7000, 3, 90_000)


@pytest.mark.parametrize("period", [2, 8, 16, 25, 64])
def test_what_comes_round_is_sampled_as_often_as_it_comes(few: int, period: int) -> None:
    """GIVEN every n-th step taking longer, n also such that it fits the thinning
    WHEN the run is long THEN as many of the sampled steps are long ones."""
    found = of([5000 if step % period == 0 else 1000 for step in range(200_000)]).sample()
    share = sum(step == 5000 for step in found) / len(found)
    assert share == pytest.approx(1 / period, abs=0.02)


def test_quantiles_of_a_long_run_are_within_a_hundredth(few: int) -> None:
    steps = [1_000_000 + (step * 7919) % 100_003 for step in range(150_000)]
    found = of(steps).sample()
    for share in (0.5, 0.95):
        exact, near = quantile(steps, share), quantile(found, share)
        assert exact is not None
        assert near == pytest.approx(exact, rel=0.01)


def test_a_copy_goes_its_own_way(few: int) -> None:
    found = of([1, 2])
    other = found.copy()
    other.update(3)
    assert (list(found.sample()), list(other.sample())) == ([1, 2], [1, 2, 3])
