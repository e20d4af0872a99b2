from __future__ import annotations

import doctest

import pytest

from stepscope.model import comparison
from stepscope.model.comparison import METRICS, metric


def test_metrics_are_found_by_their_keys() -> None:
    assert [metric(one.key) for one in METRICS] == list(METRICS)
    with pytest.raises(StopIteration):
        metric("nothing")


def test_less_is_better_of_every_figure_that_decides() -> None:
    assert not any(one.more_is_better for one in METRICS if one.decides)


def test_its_examples_are_true() -> None:
    assert doctest.testmod(comparison).failed == 0
