from __future__ import annotations

from stepscope.stats.quantiles import median, quantile, quantiles


def test_quantiles_lie_between_the_values() -> None:
    assert quantiles([40, 10, 30, 20], (0.0, 0.5, 1.0)) == [10.0, 25.0, 40.0]
    assert quantile(range(101), 0.95) == 95.0


def test_of_nothing_there_is_no_quantile() -> None:
    assert median([]) is None
    assert quantiles([], (0.5,)) == []
