"""A transform over a batch at once: equal to what it gives sample by sample, or not done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from stepscope.tune.changes.vectorise import Vectorise
from tests.unit.tune.changes.loading import epochs, made, watched

COUNT = 40


class Images(Dataset):
    def __init__(self, transform: Any, arrays: bool = False) -> None:
        images = torch.rand(COUNT, 3, 5, 5, generator=torch.Generator().manual_seed(1)) * 255
        self.images: Any = images.numpy() if arrays else images
        self.transform = transform

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return {"x": self.transform(self.images[index]), "y": (index, "name")}


class Alone(Images):
    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index])


class Further(Images):
    def __getitem__(self, index: int) -> Any:
        x = self.transform(self.images[index])
        return x * 2 if isinstance(x, torch.Tensor) else x


class Doubled(Images):
    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index]) * 2


class Plain(Images):
    def __getitem__(self, index: int) -> Any:
        return self.images[index]


class Compose:
    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Normalise:
    def __init__(self) -> None:
        self.mean = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)

    def __call__(self, x: Any) -> Any:
        return (x - self.mean) / 2


CALLS: list[Any] = []


def counted(x: Any) -> Any:
    CALLS.append(tuple(x.shape))
    return x / 255


def stretched(x: Any) -> Any:
    """Each by its own range: over a batch it would be another."""
    return (x - x.min()) / (x.max() - x.min())


def scaled(x: Any) -> Any:
    return x.astype(np.float32) / 255.0


def peaked(x: Any) -> Any:
    return x / x.max()


def noisy(x: Any) -> Any:
    return x + torch.rand(())


def branching(x: Any) -> Any:
    return -x if x.sum() > 9_500 else x


SAME: dict[str, Any] = {
    "a row of them": lambda **more: DataLoader(Images(Compose(Normalise(), stretched)), 4, **more),
    "nothing else in the sample": lambda **more: DataLoader(Alone(stretched), 4, **more),
    "a module": lambda **more: DataLoader(Alone(torch.nn.Softsign()), 4, **more),
    "arrays": lambda **more: DataLoader(Images(scaled, arrays=True), 4, **more),
    "a subset": lambda **more: DataLoader(Subset(Images(stretched), range(5, 30)), 4, **more),
}


@pytest.mark.parametrize(("way", "workers"), [*((way, 0) for way in SAME), ("arrays", 1)])
def test_batches_are_the_same(way: str, workers: int) -> None:
    def make() -> Any:
        return SAME[way](shuffle=True, num_workers=workers)

    without = epochs(make)
    with made(Vectorise) as told, watched():
        assert epochs(make) == without

    ((what, _),) = told.done
    assert what.endswith("is called once a batch, equal to the bit")


def test_the_transform_is_called_once_a_batch_after_the_first() -> None:
    with made(Vectorise):
        loader: Any = DataLoader(Alone(counted), 4)
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        CALLS.clear()
        list(batches)

    assert len(CALLS) == 7


REFUSED: dict[str, Any] = {
    "drawn at random": lambda: DataLoader(Images(noisy), 4),
    "cannot be done at once": lambda: DataLoader(Images(branching), 4),
    "at once": lambda: DataLoader(Images(peaked, arrays=True), 4),
    "be done at once: function": lambda: DataLoader(Further(stretched), 4),
    "worked on further": lambda: DataLoader(Doubled(stretched), 4),
    "wants samples": lambda: DataLoader(Images(counted), 4, collate_fn=tuple),
    "holds no transform": lambda: DataLoader(Plain(None), 4),
    "no batches": lambda: DataLoader(Images(counted), None),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_the_same_at_once_is_refused_and_stays_as_it_was(why: str) -> None:
    without = epochs(REFUSED[why])
    with made(Vectorise) as told:
        assert epochs(REFUSED[why]) == without

    assert told.done == []
    assert why in told.why
