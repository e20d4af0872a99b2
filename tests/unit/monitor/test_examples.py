"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from stepscope.monitor import active_time, gate, judge, quantities, recent, trends, words


@pytest.mark.parametrize(
    "module",
    [active_time, gate, judge, quantities, recent, trends, words],
    ids=lambda m: m.__name__,
)
def test_examples_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
