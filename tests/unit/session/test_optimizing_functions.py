from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from stepscope.session.kept_results import KeepsResults
from stepscope.session.optimizing_functions import optimize_function
from stepscope.tune.functions.rows import RowsAtOnce

ROWS = torch.arange(24.0).reshape(6, 4)


def looping(batch: Any) -> Any:
    return torch.stack([one - one.mean() for one in batch])


class Timer:
    """Seconds of a call: of the function itself, of all rows at once, of a result that is kept, and
    of asking for one."""

    def __init__(
        self, own: float = 1e-3, rows: float = 1.0, kept: float = 1.0, asking: float = 1e-5
    ) -> None:
        self._own, self._rows, self._kept, self._asking = own, rows, kept, asking

    def __call__(self, function: Any, samples: Sequence[Any]) -> float:
        if isinstance(function, RowsAtOnce):
            return self._rows
        if isinstance(function, KeepsResults):
            return self._kept
        return self._asking if getattr(function, "__name__", "") == "<lambda>" else self._own


def test_all_rows_at_once_where_that_is_faster_and_the_same() -> None:
    made, record = optimize_function(looping, [ROWS], timer=Timer(rows=1e-4))
    assert isinstance(made, RowsAtOnce)
    assert torch.allclose(made(ROWS), looping(ROWS))
    assert made.__name__ == "looping"  # type: ignore[attr-defined]
    assert record.kept
    assert record.change == "all rows at once"
    assert record.measured is not None
    assert record.measured.middle == pytest.approx(10.0)
    assert "to the bit" in record.notes[0] or "up to the rounding" in record.notes[0]
    json.dumps(record.to_dict(), allow_nan=False)


def test_results_are_kept_where_only_that_is_faster() -> None:
    made, record = optimize_function(looping, [ROWS], timer=Timer(kept=1e-4))
    assert isinstance(made, KeepsResults)
    assert record.change == "results kept"
    assert "256 MiB at most" in record.notes[1]
    assert record.tried["all rows at once"] == 1.0


def test_results_are_not_kept_where_new_inputs_would_pay_for_it() -> None:
    made, record = optimize_function(looping, [ROWS], timer=Timer(kept=1e-4, asking=5e-4))
    assert made is looping
    assert "a new one costs 50% more" in record.reason


def test_results_are_not_kept_for_less_than_twice_the_speed() -> None:
    made, record = optimize_function(looping, [ROWS], timer=Timer(kept=0.8e-3))
    assert made is looping
    assert "a known input is 1.25 times as fast" in record.reason


def test_the_original_stays_where_nothing_is_faster() -> None:
    made, record = optimize_function(looping, [ROWS], timer=Timer())
    assert made is looping
    assert not record.kept
    assert "all rows at once: 0.00 times as fast" in record.reason
    assert set(record.tried) == {"as it is", "all rows at once", "results kept"}


def test_another_way_with_other_results_is_not_even_timed() -> None:
    def across(batch: Any) -> Any:
        return batch - batch.mean(0)

    made, record = optimize_function(across, [ROWS], timer=Timer(rows=1e-9))
    assert made is across
    assert record.tried["all rows at once"] is None
    assert "not the same results" in record.reason


def test_it_has_to_be_the_same_on_every_sample() -> None:
    """One that is the same backwards and in its first half, and one that is not."""

    def first_and_last(batch: Any) -> Any:
        return batch + (batch[0] - batch[-1])

    alike = torch.ones(6, 4)
    found = optimize_function(first_and_last, [alike], timer=Timer(rows=1e-9))
    assert found.record.kept
    found = optimize_function(first_and_last, [alike, ROWS], timer=Timer(rows=1e-9))
    assert not found.record.kept


def adds_in_place(data: Any) -> Any:
    return data.add_(1)


def draws(data: Any) -> Any:
    return data + torch.rand(1)


calls: list[int] = []


def counts(data: Any) -> Any:
    calls.append(1)
    return data + len(calls)


@pytest.mark.parametrize(
    ("function", "words"),
    [(adds_in_place, "changes its input"), (draws, "random"), (counts, "different results")],
)
def test_what_cannot_be_the_same_is_left_alone(function: Any, words: str) -> None:
    made, record = optimize_function(function, [torch.zeros(3)], timer=Timer(1e-3, 1e-9, 1e-9))
    assert made is function
    assert words in record.reason


def test_without_a_sample_nothing_is_tried() -> None:
    made, record = optimize_function(looping, [])
    assert made is looping
    assert "profile_preprocessing(func, data) first" in record.reason


def test_random_numbers_of_the_program_are_put_back() -> None:
    torch.manual_seed(4)
    state = torch.get_rng_state()
    optimize_function(draws, [torch.zeros(3)], timer=Timer())
    assert torch.equal(torch.get_rng_state(), state)


def test_an_error_of_the_function_is_told_and_it_stays() -> None:
    def broken(data: Any) -> Any:
        raise OSError("the disk is gone")

    made, record = optimize_function(broken, [ROWS])
    assert made is broken
    assert "OSError: the disk is gone" in record.reason


def test_results_of_autograd_are_not_kept() -> None:
    weight = torch.ones(4, requires_grad=True)

    def weighted(data: Any) -> Any:
        return data * weight

    made, record = optimize_function(weighted, [ROWS], timer=Timer(kept=1e-9))
    assert made is weighted
    assert record.tried["results kept"] is None


def test_calls_are_really_timed_where_nobody_else_does() -> None:
    _, record = optimize_function(lambda data: data + 1, [torch.zeros(3)])
    taken = [one for one in record.tried.values() if one is not None]
    assert len(taken) >= 2
    assert min(taken) > 0
