"""Several who look at the same heap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
import torch

from stepscope.collect.tensor_heap import (
    HeapMarks,
    HeapUnseenError,
    leave_heap,
    mark_heap,
    use_heap,
)
from stepscope.record.core import core
from stepscope.record.protocol import Core
from stepscope.record.twin import TwinCore

pytestmark = pytest.mark.skipif(core.TensorHeap is None, reason="this core cannot see tensors")
MB = 1 << 20


@pytest.fixture
def marks() -> Iterator[HeapMarks]:
    made = mark_heap(core)
    yield made
    made.close()


def test_marks_give_the_most_and_what_is_live_since_the_last_one(marks: HeapMarks) -> None:
    _, before = marks.mark()
    kept = torch.empty(MB, dtype=torch.uint8)
    torch.empty(2 * MB, dtype=torch.uint8)

    assert marks.mark() == (before + 3 * MB, before + MB)
    del kept
    assert marks.mark() == (before + MB, before)


def test_marks_and_steps_do_not_disturb_each_other(marks: HeapMarks) -> None:
    heap = use_heap(core)
    heap.end_step()
    _, before = marks.mark()
    torch.empty(MB, dtype=torch.uint8)
    marks.mark()

    assert heap.end_step() == (before + MB, before)
    leave_heap(heap)


def test_who_comes_later_takes_the_marks_over(marks: HeapMarks) -> None:
    other = mark_heap(core)

    assert marks.is_lost
    assert not other.is_lost
    other.close()
    assert other.is_lost


def test_who_leaves_does_not_stop_the_others() -> None:
    stays, goes = use_heap(core), use_heap(core)
    leave_heap(goes)
    before = stays.totals()["live_bytes"]
    kept = torch.empty(MB, dtype=torch.uint8)

    assert stays.totals()["live_bytes"] - before == MB
    leave_heap(stays)
    del kept


def test_who_begins_again_begins_with_nothing() -> None:
    first = mark_heap(core)
    kept = torch.empty(MB, dtype=torch.uint8)
    first.close()
    del kept  # nobody sees that

    again = mark_heap(core)
    assert again.mark() == (0, 0)
    again.close()


def test_a_core_that_cannot_see_them_says_so() -> None:
    with pytest.raises(HeapUnseenError, match="cannot see"):
        use_heap(cast(Core, TwinCore()))
