"""Batches made both ways: when one is enough, and what ends it for good."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stepscope.tune.loading.board import Board
from stepscope.tune.loading.both_ways import AtOnce, BothWays, Way
from stepscope.tune.loading.feeds import Feed
from stepscope.tune.loading.stages import NOT_MADE
from stepscope.tune.loading.verdict import Verdict
from tests.unit.tune.changes.loading import Heard

Batch = Callable[[list[int]], Any]


class Numbers(AtOnce):
    may_round = False
    participle = "counted"
    differs = "it differs"

    def __init__(self, *ways: Batch | Way) -> None:
        super().__init__(None, [one if isinstance(one, Way) else Way(one) for one in ways])

    def indices(self, index: Any) -> list[int] | None:
        return index if isinstance(index, list) else None

    def what(self, rounded: bool) -> str:
        return f"done, rounded: {rounded}"


class Rounded(Numbers):
    may_round = True


def thirds(indices: list[int]) -> Any:
    return torch.tensor(indices, dtype=torch.float32) / 3


def nearly(indices: list[int]) -> Any:
    return thirds(indices) * (1 + 2**-22)


def wrong(indices: list[int]) -> Any:
    return thirds(indices) + 1


def failing(indices: list[int]) -> Any:
    raise ValueError("not like this")


class Program:
    """A loader's batches, and how many samples were asked for by themselves."""

    def __init__(self, at_once: AtOnce) -> None:
        self.told, self._at_once = Heard(), at_once
        self._verdict = Verdict(self.told, Feed(None, True, 0, Board()))
        self.alone = 0
        self.start()

    def start(self) -> None:
        self._make = BothWays(self._at_once, self._one_by_one, self._verdict)

    def _one_by_one(self, indices: list[int]) -> list[Any]:
        self.alone += len(indices)
        return [thirds([one])[0] for one in indices]

    def batch(self) -> Any:
        return self._make([1, 2])


@pytest.fixture
def program() -> Program:
    return Program(Numbers(failing, wrong, thirds))


def test_three_batches_are_made_both_ways_and_from_then_on_the_way_that_gave_the_same(
    program: Program,
) -> None:
    for _ in range(2):
        program.batch()
    assert program.told.done == []
    for _ in range(10):
        assert torch.equal(program.batch(), thirds([1, 2]))
    assert program.told.done == [("done, rounded: False", None)]
    assert program.alone == 2 * 3


def test_the_first_batch_of_an_iteration_and_one_in_256_is_made_both_ways_again(
    program: Program,
) -> None:
    for _ in range(255):
        program.batch()
    assert program.alone == 2 * 3
    program.batch()
    assert program.alone == 2 * 4
    program.start()
    for _ in range(9):
        program.batch()
    assert program.alone == 2 * 5


def test_equal_up_to_rounding_counts_where_the_change_says_so() -> None:
    program = Program(Rounded(nearly))
    for _ in range(3):
        program.batch()
    assert program.told.done == [("done, rounded: True", None)]


def test_equal_up_to_rounding_is_not_the_same_elsewhere() -> None:
    program = Program(Numbers(nearly))
    program.batch()
    assert program.told.why == "it differs"


def test_what_differs_is_refused_for_good_and_the_program_gets_its_samples() -> None:
    program = Program(Numbers(wrong, failing))
    assert torch.equal(program.batch(), thirds([1, 2]))
    assert program.told.why == "it differs"
    assert program.batch() is NOT_MADE
    program.start()
    assert program.batch() is NOT_MADE
    assert program.alone == 2


def test_a_way_that_fails_its_check_is_not_asked() -> None:
    def refuse() -> None:
        raise TypeError("looks across samples")

    asked: list[Any] = []
    program = Program(Numbers(Way(asked.append, refuse)))
    program.batch()
    assert asked == []
    assert program.told.why == "it differs"


def test_a_way_that_fails_later_leaves_the_batch_to_torch_and_is_not_asked_again() -> None:
    calls: list[Any] = []

    def at_first(indices: list[int]) -> Any:
        calls.append(indices)
        return thirds(indices) if len(calls) < 5 else failing(indices)

    program = Program(Numbers(at_first))
    for _ in range(4):
        program.batch()
    assert [program.batch() is NOT_MADE for _ in range(2)] == [True, True]
    assert program.told.why == "a batch could not be counted at once: not like this"
    assert len(calls) == 5


def test_samples_that_are_drawn_at_random_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(program: Program, indices: list[int]) -> list[Any]:
        return [torch.tensor(random.random()) for _ in indices]

    monkeypatch.setattr(Program, "_one_by_one", drawn)
    program = Program(Numbers(thirds))
    program.batch()
    assert program.told.why == "its samples are drawn at random, each on its own"


def test_what_a_way_draws_is_put_back() -> None:
    def drawing(indices: list[int]) -> Any:
        random.random()
        return thirds(indices)

    random.seed(1)
    wanted = random.random()
    random.seed(1)
    Program(Numbers(drawing)).batch()
    assert random.random() == wanted


def test_an_index_that_is_none_of_numbers_is_left_to_torch(program: Program) -> None:
    assert program._make("a") is NOT_MADE
    assert program.alone == 0
