from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from stepscope.collect.digest import batch_of, digest, shape_of
from stepscope.collect.loading import batch_samples, make_loader, settings_of, undisturbed

DATA = TensorDataset(torch.arange(40))


def order(loader: Any) -> list[int]:
    return [int(value) for (batch,) in loader for value in batch]


def drawn() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_the_programs_random_numbers_are_as_if_nobody_had_looked() -> None:
    loader = DataLoader(DATA, batch_size=4, shuffle=True)

    def seeded(look: bool) -> Any:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        if look:
            with undisturbed(loader) as mine:
                order(mine)
                drawn()
        return order(loader), drawn()

    assert seeded(look=True) == seeded(look=False)


def test_a_loader_with_a_generator_goes_on_with_the_same_order() -> None:
    def made() -> Any:
        return DataLoader(
            DATA, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3)
        )

    wanted = order(made())
    loader = made()
    with undisturbed(loader) as mine:
        assert order(mine) == wanted
    assert order(loader) == wanted


def test_an_error_while_looking_leaves_the_numbers_alone_too() -> None:
    torch.manual_seed(1)
    wanted = torch.get_rng_state()

    def fail() -> None:
        with undisturbed(DataLoader(DATA)):
            torch.rand(3)
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fail()
    assert torch.equal(torch.get_rng_state(), wanted)


def test_workers_that_a_loader_keeps_are_not_taken_from_it() -> None:
    loader = DataLoader(DATA, batch_size=4, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    first = next(iterator)[0].tolist()
    with undisturbed(loader) as mine:
        assert order(mine) == list(range(40))
    rest = [value for (batch,) in iterator for value in batch.tolist()]
    assert first + rest == list(range(40))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(8))


def test_loaders_are_made_with_what_torch_allows() -> None:
    alone = settings_of(make_loader(DATA, 8, 0))
    assert (alone["workers"], alone["batch_size"], alone["prefetch_factor"]) == (0, 8, None)
    assert settings_of(make_loader(DATA, 8, 1))["prefetch_factor"] == 2
    assert [batch.tolist() for batch in make_loader(Stream(), 4, 0)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert settings_of([1, 2]) == {}


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(4, 3), 4),
        ([torch.zeros(4, 3), torch.zeros(2)], 4),
        ({"x": np.zeros((5, 1)), "y": 1}, 5),
        (("name", (torch.zeros(7),)), 7),
        (torch.tensor(1.0), None),
        ("text", None),
        (3, None),
    ],
)
def test_samples_of_a_batch(batch: Any, samples: int | None) -> None:
    assert batch_samples(batch) == samples


SAME = [
    (torch.arange(4), torch.arange(4)),
    (torch.arange(8)[::2], torch.tensor([0, 2, 4, 6])),
    (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    (np.arange(3), np.arange(3)),
    ({"a": [1, torch.ones(1)]}, {"a": [1, torch.ones(1)]}),
    (torch.tensor(1.0), torch.tensor(1.0)),
]
OTHERS = [
    (torch.zeros(2, 3), torch.ones(2, 3)),  # the source document takes these for the same
    (torch.zeros(2, 3), torch.zeros(3, 2)),
    (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
    ([1, 2], (1, 2)),
    ([[1], 2], [1, [2]]),
    (np.zeros(2), torch.zeros(2)),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_content_has_the_same_digest(one: Any, other: Any) -> None:
    assert digest(one) == digest(other) is not None


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_content_has_another_digest(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


def test_what_cannot_be_looked_into_has_none() -> None:
    assert digest(lambda: 0) is None
    assert digest(np.array([object()])) is None


def test_batches_have_a_dimension_of_their_own() -> None:
    assert tuple(batch_of(torch.zeros(3, 8, 8), 4).shape) == (4, 3, 8, 8)
    assert tuple(batch_of(torch.zeros(3), 1).shape) == (1, 3)
    assert batch_of(np.zeros((3, 2)), 5).shape == (5, 3, 2)
    assert batch_of("text", 2) == ["text", "text"]
    assert shape_of(torch.zeros(1, 2)) == (1, 2)
    assert shape_of("text") is None
