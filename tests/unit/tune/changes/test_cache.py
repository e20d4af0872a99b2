"""Samples that are kept: the same, and made no more often than they have to be."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from stepscope.tune.changes.cache import Cache
from tests.unit.tune.changes.loading import epochs, made, watched

COUNT = 20


class Counted(Dataset):
    """A dataset that counts how often it makes a sample, in whatever process."""

    def __init__(self) -> None:
        self.calls = os.memfd_create("calls")
        self.x = torch.randn(COUNT, 3, 4, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return COUNT

    def _count(self) -> None:
        os.write(self.calls, b".")

    @property
    def made(self) -> int:
        return os.fstat(self.calls).st_size

    def __getitem__(self, index: int) -> Any:
        self._count()
        return self.x[index].t() * 2, {"name": f"é{index}", "id": index}, np.float32(index)

    def __del__(self) -> None:
        os.close(self.calls)


class Compose:
    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Costly:
    """A transform that is dear, as it may be."""

    def __call__(self, x: Any) -> Any:
        return x.sqrt()


def noise(x: Any) -> Any:
    return x.add_(torch.rand(x.shape) + random.random() + np.random.rand())


class Augmented(Counted):
    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        super().__init__()
        self.transform = Compose(*transforms)

    def __getitem__(self, index: int) -> Any:
        self._count()
        return self.transform(self.x[index].abs()), index


class Further(Augmented):
    def __getitem__(self, index: int) -> Any:
        x = self.transform(self.x[index].abs())
        return x * 2 if isinstance(x, torch.Tensor) else x


class Random(Counted):
    def __getitem__(self, index: int) -> Any:
        return self.x[index] + random.random()


class Odd(Counted):
    """Not the same twice, and no random generator tells."""

    def __getitem__(self, index: int) -> Any:
        self._count()
        return self.x[index] + self.made


class Scaled(Counted):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 1

    def __getitem__(self, index: int) -> Any:
        self._count()
        return self.x[index] * self.scale


class Objects(Counted):
    def __getitem__(self, index: int) -> Any:
        return {index, index + 1}


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))

    def __len__(self) -> int:
        return 4


def alone(samples: Any) -> Any:
    return samples


LOADERS: dict[str, dict[str, Any]] = {
    "in the training process": {},
    "with a worker": {"num_workers": 1},
    "with a worker that stays": {"num_workers": 1, "persistent_workers": True},
    "with a collate_fn": {"collate_fn": alone},
    "one by one": {"batch_size": None},
}


def loader(dataset: Any, **settings: Any) -> Any:
    if settings.get("batch_size", 0) is None:
        return DataLoader(dataset, **settings)
    return DataLoader(dataset, shuffle=True, **({"batch_size": 4} | settings))


@pytest.mark.parametrize(
    ("way", "where"), [*((way, "memory") for way in LOADERS), ("with a worker", "disk")]
)
def test_samples_are_the_same_and_made_once(way: str, where: str) -> None:
    without = epochs(lambda: loader(Counted(), **LOADERS[way]), 4)
    dataset = Counted()
    with made(Cache, {"where": where, "limit_bytes": 1 << 20}) as told, watched():
        assert epochs(lambda: loader(dataset, **LOADERS[way]), 4) == without

    # Eight are compared in the second pass, and one in each of the others.
    assert dataset.made == COUNT + 8 + 2
    assert [what for what, _ in told.done] == ["samples are made once and kept (20 samples so far)"]


def test_a_program_that_writes_into_its_samples_does_not_write_into_what_is_kept() -> None:
    dataset = Counted()
    with made(Cache, {"limit_bytes": 1 << 20}):
        samples: Any = DataLoader(dataset, None)
        first = [x.zero_() for x, _, _ in samples]
        for _ in range(6):
            for x, _, _ in samples:
                x.zero_()
        again = [x.clone() for x, _, _ in samples]

    assert not any(x.any() for x in first)
    assert all(torch.equal(x, y.t() * 2) for x, y in zip(again, dataset.x, strict=True))


def test_what_does_not_fit_is_made_each_time() -> None:
    dataset = Counted()
    dataset.x = torch.randn(COUNT, 8, 32)  # 1 KiB each
    without = epochs(lambda: DataLoader(dataset, 4), 3)
    os.ftruncate(dataset.calls, 0)
    os.lseek(dataset.calls, 0, os.SEEK_SET)
    with made(Cache, {"limit_bytes": 16 * 1_024}) as told:
        assert epochs(lambda: DataLoader(dataset, 4), 3) == without

    ((what, _),) = set(told.done)
    assert "as many as fit" in what
    kept = int(what.split("(")[1].split()[0])
    assert 8 < kept < COUNT
    assert dataset.made == COUNT + (COUNT - kept + 8) + (COUNT - kept + 1)


@pytest.mark.parametrize("way", LOADERS)
def test_transforms_before_the_first_random_one_are_made_once(way: str) -> None:
    without = epochs(lambda: loader(Augmented(Costly(), noise, torch.exp), **LOADERS[way]), 4)
    dataset = Augmented(Costly(), noise, torch.exp)
    with made(Cache, {"limit_bytes": 1 << 20}) as told, watched():
        assert epochs(lambda: loader(dataset, **LOADERS[way]), 4) == without

    ((what, _),) = told.done
    assert what == "samples are kept up to their first 1 transforms (20 samples so far)"
    # To find out: two more of one sample. Both ways: seven more. Compared: eight, then one a pass.
    assert dataset.made <= COUNT + 2 + 8 + 8 + 2


def test_a_subset_of_images_is_kept_before_its_transform() -> None:
    image = pytest.importorskip("PIL.Image")

    class Images(Augmented):
        def __getitem__(self, index: int) -> Any:
            self._count()
            picture = image.fromarray((self.x[index].abs() * 50).to(torch.uint8).numpy())
            return {"x": self.transform(picture), "y": index}

    def crop(picture: Any) -> Any:
        left = random.randrange(2)
        return torch.from_numpy(np.array(picture.crop((left, 0, left + 2, 2))))

    def make() -> Any:
        return DataLoader(Subset(dataset, range(1, COUNT)), 4)

    dataset = Images(crop)
    without = epochs(make, 3)
    before = dataset.made
    with made(Cache, {"limit_bytes": 1 << 20}) as told:
        assert epochs(make, 3) == without

    assert "first 0 transforms" in told.done[0][0]
    assert dataset.made - before < 3 * COUNT


REFUSED: dict[str, Any] = {
    "no transform": Random,
    "not the same when it is made again": Odd,
    "cannot be kept: a builtins.set": Objects,
    "one by one, give something else": lambda: Further(Costly(), noise),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("workers", [0, 1])
def test_what_cannot_be_kept_is_refused_and_stays_as_it_was(why: str, workers: int) -> None:
    def make() -> Any:
        if why.startswith("not the same"):  # which depends on how often it was asked
            return DataLoader(REFUSED[why](), 4, num_workers=workers, collate_fn=len)
        return DataLoader(REFUSED[why](), 4, num_workers=workers, collate_fn=repr)

    without = epochs(make, 2)
    with made(Cache, {"limit_bytes": 1 << 20}) as told:
        assert epochs(make, 2) == without

    assert told.done == []
    assert why in told.why
    assert len(told.not_done) == 1


def test_a_stream_is_refused() -> None:
    with made(Cache, {"limit_bytes": 1 << 20}) as told:
        list(DataLoader(Stream(), 2))

    assert "a stream" in told.why


def test_a_dataset_that_the_program_changes_is_made_anew() -> None:
    dataset = Scaled()
    with made(Cache, {"limit_bytes": 1 << 20}):
        batches: Any = DataLoader(dataset, COUNT)
        before, _, _ = [batch for _ in range(3) for batch in batches]
        dataset.scale = 5
        (after,) = batches

    assert torch.equal(after, before * 5)


def test_evaluation_is_left_alone() -> None:
    dataset = Counted()
    with made(Cache, {"limit_bytes": 1 << 20}) as told, torch.no_grad():
        for _ in range(3):
            list(DataLoader(dataset, 4))

    assert dataset.made == 3 * COUNT
    assert (told.done, told.not_done) == ([], [])


def test_a_program_of_one_pass_is_told_that_nothing_came_round_again() -> None:
    from tests.unit.tune.changes.loading import Heard

    told = Heard()
    change = Cache({}, told)
    change.install()
    try:
        dataset = Counted()
        list(DataLoader(dataset, 4))
        change.finish()
    finally:
        change.undo()

    assert "second time" in told.why
    assert told.errors == []
