from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from stepscope.advise import throughput
from stepscope.analyze import words
from stepscope.report import status
from stepscope.stats import quantiles


@pytest.mark.parametrize("module", [words, quantiles, throughput, status])
def test_examples_in_docstrings_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
