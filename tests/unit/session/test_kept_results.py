from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from stepscope.session.kept_results import KeepsResults, copied, size_bytes


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: Any) -> Any:
        self.calls += 1
        return data * 2


def double(data: Any) -> Any:
    return data * 2


def test_an_input_of_the_same_content_is_computed_once() -> None:
    function = Counting()
    kept = KeepsResults(function, limit_bytes=1000, each_bytes=12)
    for _ in range(3):
        assert torch.equal(kept(torch.ones(3)), torch.full((3,), 2.0))
    assert (function.calls, kept.hits, kept.misses) == (1, 2, 1)
    kept(torch.zeros(3))
    assert function.calls == 2, "the same shape, and other content"


def test_whoever_changes_a_result_changes_its_own_only() -> None:
    kept = KeepsResults(double, 1000, 12)
    first = kept(torch.ones(3))
    first.zero_()
    second = kept(torch.ones(3))
    assert second.tolist() == [2, 2, 2]
    second.zero_()
    assert kept(torch.ones(3)).tolist() == [2, 2, 2]


def test_results_together_stay_within_the_limit() -> None:
    function = Counting()
    kept = KeepsResults(function, limit_bytes=24, each_bytes=12)
    for value in (1.0, 2.0, 3.0, 1.0):
        kept(torch.full((3,), value))
    assert function.calls == 4, "the first had to go"
    kept(torch.ones(4))
    kept(torch.ones(4))
    assert function.calls == 6, "larger than any that it was made for: not kept"


def test_input_that_cannot_be_told_apart_is_computed() -> None:
    function = Counting()
    kept = KeepsResults(function, 1000, 100)

    class Hidden:
        def __reduce__(self) -> Any:
            raise TypeError("not to be looked into")

        def __mul__(self, factor: int) -> int:
            return factor

    assert kept(Hidden()) == kept(Hidden()) == 2
    assert function.calls == 2


def test_where_nothing_comes_again_it_stops_asking() -> None:
    function = Counting()
    kept = KeepsResults(function, 16, 8)
    for value in range(1500):
        kept(value)
    assert kept.misses == 1000
    kept(1)
    kept(1)
    assert function.calls == 1502


def test_a_copy_for_another_process_begins_empty() -> None:
    kept = KeepsResults(double, 1000, 12)
    kept(torch.ones(3))
    other = pickle.loads(pickle.dumps(kept))
    assert (other.hits, other.misses) == (0, 0)
    assert other(torch.ones(3)).tolist() == [2, 2, 2]
    assert other.misses == 1


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (torch.zeros(3), 12),
        (np.zeros(3), 24),
        ([torch.zeros(3), "ab"], 14),
        ({"a": torch.zeros(3), "b": 1}, 20),
    ],
)
def test_values_are_copied_and_weighed(value: Any, size: int) -> None:
    assert size_bytes(value) == size
    other = copied(value)
    assert type(other) is type(value)
    assert other is not value
    assert size_bytes(other) == size
