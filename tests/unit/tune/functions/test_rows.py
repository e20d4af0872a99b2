from __future__ import annotations

from typing import Any

import pytest
import torch

from stepscope.tune.functions.alike import alike
from stepscope.tune.functions.rows import RowsAtOnce, variants


class Counting:
    """Goes through its rows one by one, and counts them."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, batch: Any) -> Any:
        results = []
        for one in batch:
            self.rows += 1
            results.append((one - one.mean()) / 2)
        return results if isinstance(batch, list) else torch.stack(results)


@pytest.mark.parametrize(
    "data", [torch.randn(6, 4), [torch.randn(4) for _ in range(6)]], ids=["tensor", "list"]
)
def test_the_loop_goes_round_once_for_all_rows(data: Any) -> None:
    function = Counting()
    wanted = function(data)
    fast = RowsAtOnce(function, data)
    function.rows = 0
    assert alike(fast(data), wanted)
    assert function.rows == 1
    assert function is fast.__wrapped__  # type: ignore[attr-defined]


def test_results_of_a_list_have_a_memory_each() -> None:
    data = [torch.zeros(4), torch.zeros(4)]
    first, second = RowsAtOnce(Counting(), data)(data)
    first.add_(1)
    assert second.sum() == 0
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "data",
    [torch.randn(6, 5), torch.randn(6, 4).double(), torch.randn(0, 4)],
    ids=["other rows", "other dtype", "none"],
)
def test_input_unlike_the_sample_goes_to_the_function_itself(data: Any) -> None:
    function = Counting()
    fast = RowsAtOnce(function, torch.randn(6, 4))
    function.rows = 0
    if len(data):
        fast(data)
    else:
        with pytest.raises(RuntimeError, match="non-empty"):  # the function's own error
            fast(data)
    assert function.rows == len(data)


def test_what_vmap_cannot_do_goes_to_the_function_from_then_on() -> None:
    def choosing(batch: Any) -> Any:
        return torch.stack([one if one.sum() > 0 else -one for one in batch])

    data = torch.randn(5, 3)
    fast = RowsAtOnce(choosing, data)
    assert torch.equal(fast(data), choosing(data))
    with pytest.raises(Exception, match="data-dependent control flow"):
        fast.at_once(data)


def test_a_function_that_looks_across_rows_gives_itself_away() -> None:
    def centred(batch: Any) -> Any:
        return batch - batch.mean(0)

    data = torch.randn(6, 3)
    assert not alike(RowsAtOnce(centred, data)(data), centred(data))


def test_variants_are_the_sample_backwards_and_its_first_half() -> None:
    whole, backwards, half = variants(torch.arange(4.0))
    assert whole.tolist() == [0, 1, 2, 3]
    assert backwards.tolist() == [3, 2, 1, 0]
    assert half.tolist() == [0, 1]
    assert variants("text") == ["text"]
    first, second, third = variants([torch.zeros(2), torch.ones(2)])
    assert [len(first), len(second), len(third)] == [2, 2, 1]
    assert second[0].sum() == 2


@pytest.mark.parametrize("data", [torch.tensor(1.0), [], ["a"], [torch.zeros(2), torch.zeros(3)]])
def test_input_without_rows_of_one_kind_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="no rows"):
        RowsAtOnce(lambda one: one, data)
