from __future__ import annotations

from typing import Any

import pytest

from stepscope.errors import FormatError
from stepscope.interop.memory_timeline import timeline_of
from stepscope.model.allocations import CategoryChange

PREEXISTING, CREATE, INCREMENT_VERSION, DESTROY = 1, 2, 3, 4


def test_each_category_of_torch_has_its_place() -> None:
    document = [[-1, PREEXISTING, 10 + number, number] for number in range(8)]
    assert [change.category for change in timeline_of(document).changes] == [
        "parameter",
        "optimizer state",
        "input",
        "temporary",
        "activation",
        "gradient",
        "other",  # autograd detail
        "other",  # not told by torch
    ]


def test_changes_are_signed_and_in_order() -> None:
    made = timeline_of(
        [
            [-1, PREEXISTING, 100, 0],
            [5, CREATE, 40, 7],
            [6, INCREMENT_VERSION, -40, 7],
            [6, INCREMENT_VERSION, 40, 4],
            [9, DESTROY, -40, 4],
        ]
    )
    assert made.changes[-2:] == (
        CategoryChange(6, "activation", 40),
        CategoryChange(9, "activation", -40),
    )
    assert (made.allocations, made.frees) == (2, 1)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([[1, 2, 3]], "event 0 should be a list of time"),
        ([7], "event 0 should be a list"),
        ([[1, 2, "a", 4]], "whole number"),
        ([[1.5, 2, 3, 4]], "whole number"),
        ([[True, 2, 3, 4]], "whole number"),
        ([[1, 2, 1 << 70, 4]], "64 bits"),
        ([[-2, 2, 3, 4]], "time below -1"),
        ([[1, 5, 3, 4]], "action 5"),
        ([[1, 0, 3, 4]], "action 0"),
        ([[1, 2, 3, 8]], "category 8"),
        ([[1, 2, 3, -1]], "category -1"),
        ([[1, CREATE, -3, 4]], "negative size"),
        ([[1, DESTROY, 3, 4]], "negative size"),
        ([[1, DESTROY, -3, 4]], "frees more of its category than there is"),
        ([[5, CREATE, 3, 4], [4, CREATE, 3, 4]], "event 1 is older"),
        ([[1, 2, 3], [[0, 1], [0, 2], [0, 3]]], "sums for a picture"),
    ],
)
def test_what_torch_does_not_write_is_refused_in_words(document: Any, said: str) -> None:
    with pytest.raises(FormatError) as refused:
        timeline_of(document)
    assert said in str(refused.value)
