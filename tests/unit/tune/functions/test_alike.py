from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from stepscope.tune.functions.alike import TO_THE_BIT, alike

ONES = torch.ones(3)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (ONES, torch.ones(3), TO_THE_BIT),
        (ONES, ONES + 5e-7, "up to the rounding of float32"),
        (ONES, ONES + 1e-3, ""),
        (ONES, ONES.double(), ""),
        (ONES, torch.ones(1, 3), ""),
        (ONES, np.ones(3, dtype=np.float32), ""),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), ""),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), "up to the rounding"),
        (np.ones(2), np.ones(2), TO_THE_BIT),
        (np.ones(2), np.ones(2) + 1e-9, "up to the rounding of float64"),
        (np.array([1]), np.array([2]), ""),
        (np.array(["a"]), np.array(["b"]), ""),
        ([ONES, 1], [ONES, 1], TO_THE_BIT),
        ([ONES, 1], [ONES + 5e-7, 1], "up to the rounding of float32"),
        ([ONES, 1], [ONES, 2], ""),
        ([ONES], [ONES, ONES], ""),
        ({"a": ONES}, {"a": ONES}, TO_THE_BIT),
        ({"a": ONES}, {"b": ONES}, ""),
        ("text", "text", TO_THE_BIT),
        (1.0, 1.5, ""),
    ],
)
def test_results_are_alike(one: Any, other: Any, found: str) -> None:
    assert alike(one, other).startswith(found)
    assert bool(alike(one, other)) == bool(found)


def test_objects_that_cannot_be_compared_are_not_alike() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError("not comparable")

        __hash__ = None  # type: ignore[assignment]

    assert alike(Odd(), Odd()) == ""
