from __future__ import annotations

import doctest

import pytest

from stepscope.stats import means
from stepscope.stats.means import typical


def test_the_ratio_of_typical_figures_is_that_of_all_pairs() -> None:
    assert typical([2.0, 8.0]) / typical([1.0, 4.0]) == pytest.approx(2.0)


def test_its_examples_are_true() -> None:
    assert doctest.testmod(means).failed == 0
