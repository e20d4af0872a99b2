"""Prints all that loaders of many kinds give, to the bit: the same with and without us."""

from __future__ import annotations

import gc
import hashlib
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, get_worker_info


class Pair(NamedTuple):
    x: Any
    y: Any


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x) * 0.1


class Times:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Compose:
    def __init__(self, transforms: list[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Items(Dataset):
    """Every sample says where it was made and what the random numbers there were."""

    def __init__(self, fails_at: int = -1) -> None:
        self.fails_at = fails_at
        self.transform = Compose([Times(2.0), noisy])
        self.target_transform = noisy

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        if index == self.fails_at:
            raise KeyError(f"no item {index}")
        info = get_worker_info()
        who = (-1, 0, 0) if info is None else (info.id, info.num_workers, info.seed % 1000)
        assert info is None or info.dataset is self or isinstance(info.dataset, Subset)
        assert len(pickle.dumps(self)) > 0
        x = self.transform(torch.full((3,), float(index)))
        y = self.target_transform(torch.ones(1))
        noise = (random.random(), float(np.random.rand()), float(torch.rand(1)))
        return {"x": x, "y": y, "who": torch.tensor(who), "noise": noise, "name": f"item {index}"}


class Whole(Items):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        assert type(indices) is list
        return [self[index] for index in indices]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (torch.rand(2) + number for number in range(start, 7, step))


def to_arrays(items: list[Any]) -> Pair:
    return Pair(np.stack([item["x"].numpy() for item in items]), [item["name"] for item in items])


def fails(items: list[Any]) -> Any:
    raise ValueError(f"cannot collate {len(items)} items")


def init(worker: int) -> None:
    random.seed(worker + 7)


LOADERS: dict[str, Callable[[], Any]] = {
    "plain": lambda: DataLoader(Items(), batch_size=3, shuffle=True),
    "own generator": lambda: DataLoader(
        Items(), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(5)
    ),
    "fork": lambda: DataLoader(Items(), batch_size=3, shuffle=True, num_workers=2),
    "spawn": lambda: DataLoader(
        Items(), batch_size=4, num_workers=1, multiprocessing_context="spawn"
    ),
    "forkserver": lambda: DataLoader(
        Items(), batch_size=4, num_workers=1, multiprocessing_context="forkserver"
    ),
    "persistent": lambda: DataLoader(
        Items(), batch_size=3, shuffle=True, num_workers=2, persistent_workers=True
    ),
    "any order": lambda: DataLoader(Items(), batch_size=2, num_workers=1, in_order=False),
    "stream": lambda: DataLoader(Stream(), batch_size=2, num_workers=2),
    "stream, whole batches": lambda: DataLoader(
        Stream(), batch_size=3, num_workers=2, drop_last=True, persistent_workers=True
    ),
    "stream here": lambda: DataLoader(Stream(), batch_size=2),
    "one by one": lambda: DataLoader(Items(), batch_size=None),
    "one by one, workers": lambda: DataLoader(Items(), batch_size=None, num_workers=2),
    "stream one by one": lambda: DataLoader(Stream(), batch_size=None, num_workers=1),
    "whole": lambda: DataLoader(Whole(), batch_size=4, num_workers=1),
    "whole here": lambda: DataLoader(Whole(), batch_size=4),
    "subset": lambda: DataLoader(Subset(Items(), [3, 1, 4]), batch_size=2, num_workers=1),
    "arrays": lambda: DataLoader(Items(), batch_size=5, num_workers=1, collate_fn=to_arrays),
    "init": lambda: DataLoader(Items(), batch_size=5, num_workers=2, worker_init_fn=init),
    "fails": lambda: DataLoader(Items(fails_at=4), batch_size=3, num_workers=1),
    "fails here": lambda: DataLoader(Items(fails_at=4), batch_size=3),
    "collate fails": lambda: DataLoader(Items(), batch_size=3, num_workers=1, collate_fn=fails),
}


def digest(batch: Any) -> str:
    """Types, values and order of all that is in a batch."""
    if isinstance(batch, torch.Tensor):
        batch = (str(batch.dtype), batch.tolist())
    elif isinstance(batch, dict):
        batch = [(key, digest(value)) for key, value in batch.items()]
    elif isinstance(batch, Pair):
        batch = ("Pair", batch.x.tolist(), batch.y)
    return hashlib.sha1(repr((type(batch), batch)).encode()).hexdigest()[:12]


def show(name: str) -> None:
    torch.manual_seed(3)
    random.seed(4)
    np.random.seed(5)
    loader = LOADERS[name]()
    for epoch in range(1 if "fails" in name else 2):  # torch takes 5 s to end one that failed
        print(name, epoch, end=":")
        try:
            for batch in loader:
                print("", digest(batch), end="")
        except Exception as error:  # noqa: BLE001
            told = str(error).splitlines()
            print(type(error), told if name == "fails" else (told[0], told[-1]), end="")
        print("", float(torch.rand(1)), random.random(), np.random.rand())
        gc.collect()  # an iterator that failed is held by its error; a fork must not inherit it
    print("dataset", pickle.dumps(loader.dataset).hex()[-40:])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in LOADERS:
        show(each)
