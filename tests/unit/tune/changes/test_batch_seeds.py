"""Batches whose random numbers do not depend on who makes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from stepscope.collect.digest import digest
from stepscope.tune.changes.batch_seeds import BatchSeeds
from stepscope.tune.changes.loader import Loader
from tests.unit.tune.changes.loading import Heard, epochs, made

WORKERS = {"num_workers": 2, "persistent_workers": True}


class Everywhere(Dataset[tuple[float, ...]]):
    """Draws from all global generators, and from three of its own."""

    def __init__(self) -> None:
        self._python, self._torch = random.Random(1), torch.Generator().manual_seed(1)
        self._numpy = np.random.default_rng(1)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[float, ...]:
        own = (self._python.random(), self._numpy.random())
        drawn = torch.rand((), generator=self._torch).item()
        return (index, random.random(), np.random.rand(), torch.rand(()).item(), *own, drawn)


HIDDEN = np.random.default_rng(1)


class Hidden(Everywhere):
    def __getitem__(self, index: int) -> tuple[float, ...]:
        return (HIDDEN.random(),)


class Stream(IterableDataset[float]):
    def __iter__(self) -> Iterator[float]:
        return (random.random() for _ in range(12))


def seen(dataset: Any, workers: bool) -> list[list[bytes | None]]:
    """What a program sees of two passes, and the random numbers that it draws itself."""

    def make() -> Any:
        shuffle = not isinstance(dataset, IterableDataset)
        return DataLoader(dataset, batch_size=4, shuffle=shuffle, collate_fn=_noisy)

    if not workers:
        return epochs(make)
    with made(Loader, WORKERS):
        return epochs(make)


def _noisy(samples: list[Any]) -> Any:
    return torch.tensor(samples), random.random()


def test_workers_draw_what_the_training_process_draws() -> None:
    assert seen(Everywhere(), workers=True) != seen(Everywhere(), workers=False)
    with made(BatchSeeds) as told:
        assert seen(Everywhere(), workers=True) == seen(Everywhere(), workers=False)
    assert {what for what, _ in told.done} == {"every batch is drawn from a seed of its own"}
    assert told.not_done == []


def test_what_the_program_draws_itself_does_not_depend_on_the_samples() -> None:
    with made(BatchSeeds):
        drawn = seen(Everywhere(), workers=False)[1::2]
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    expected = []
    for _ in range(2):
        # torch draws a seed for the iterator and one for the order, and nothing else is drawn.
        torch.empty((2,), dtype=torch.int64).random_()
        expected.append([digest([torch.rand(3), random.random(), np.random.rand()])])
    assert drawn == expected


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (Hidden(), "a batch made twice from one seed is not the same"),
        (Stream(), "a stream has no indices that could give a seed"),
    ],
)
def test_random_numbers_out_of_reach_are_refused_and_drawn_anew(dataset: Any, why: str) -> None:
    HIDDEN.bit_generator.state = np.random.default_rng(1).bit_generator.state
    plain = seen(dataset, workers=False)
    HIDDEN.bit_generator.state = np.random.default_rng(1).bit_generator.state
    told: Heard
    with made(BatchSeeds) as told:
        assert seen(dataset, workers=False)[0] != plain[0]
    assert told.why.split("; ")[0] == why
    assert told.done == []
