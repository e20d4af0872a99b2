from __future__ import annotations

import pytest

from stepscope.checkpointing.budget import Budget, budget_of
from stepscope.errors import UsageError


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("4GiB", Budget(bytes=4 << 30)),
        ("800 MB", Budget(bytes=800_000_000)),
        ("1.5g", Budget(bytes=3 << 29)),
        (123, Budget(bytes=123)),
        ("60%", Budget(share=0.6)),
        (0.6, Budget(share=0.6)),
    ],
)
def test_a_budget_is_read_as_people_say_it(said: str | int | float, meant: Budget) -> None:
    assert budget_of(said) == meant


@pytest.mark.parametrize("saved", ["40%", 0.4, "0.4"])
def test_what_is_to_be_saved_leaves_the_rest(saved: str | float) -> None:
    assert budget_of(save=saved).of(1000) == 600


@pytest.mark.parametrize("wrong", ["four", "4XB", "-1GiB", "0", "120%", ""])
def test_what_is_no_amount_is_said_to_be_none(wrong: str) -> None:
    with pytest.raises(UsageError, match="give"):
        budget_of(wrong)


@pytest.mark.parametrize("wrong", ["100%", "0%", "1GiB"])
def test_all_or_nothing_cannot_be_saved(wrong: str) -> None:
    with pytest.raises(UsageError):
        budget_of(save=wrong)


def test_one_of_both_has_to_be_said_and_not_both() -> None:
    for given in ({}, {"value": "1GiB", "save": "40%"}):
        with pytest.raises(UsageError, match="how much"):
            budget_of(**given)
