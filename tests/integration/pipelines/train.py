"""Trains a tiny model from a loader whose cost is known. Arguments: the pipeline, workers, and how
these are started."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

SLOW_ITEM = 21


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Crop:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        return x


def flip(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.001)
    return x


class Compose:
    def __init__(self, transforms: list[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Sleeps(Dataset):
    """4 ms a sample, 3 of them in transforms; one of 40 samples takes 60 ms longer."""

    def __init__(self) -> None:
        self.transform = Compose([Crop(), flip])

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.061 if index == SLOW_ITEM else 0.001)
        return self.transform(torch.full((8,), float(index)))


class Burns(Dataset):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(0.005)
        return torch.full((8,), float(index))


class Big(Dataset):
    """128 KiB a sample."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        return np.full((32768,), index, dtype=np.float32)


class Fast(Dataset):
    """Samples of microseconds, but for one that takes 20 ms."""

    def __init__(self) -> None:
        self.all = torch.zeros(10_000, 8)

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == SLOW_ITEM:
            time.sleep(0.02)
        return self.all[index]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(24):
            time.sleep(0.003)
            yield torch.zeros(8)


def slow_collate(items: list[torch.Tensor]) -> torch.Tensor:
    time.sleep(0.006)
    return torch.stack(items)


def arrays(items: list[Any]) -> Any:
    return np.stack(items)


def slow_start(worker: int) -> None:
    time.sleep(0.2)


PIPELINES: dict[str, tuple[type, dict[str, Any]]] = {
    "sleeps": (Sleeps, {"batch_size": 4, "collate_fn": slow_collate}),
    "burns": (Burns, {"batch_size": 4}),
    "big": (Big, {"batch_size": 8, "collate_fn": arrays}),
    "fast": (Fast, {"batch_size": 100, "shuffle": True}),
    "stream": (Stream, {"batch_size": 4}),
    "starts": (Burns, {"batch_size": 8, "worker_init_fn": slow_start}),
}


def main(pipeline: str, workers: int, context: str) -> None:
    dataset, settings = PIPELINES[pipeline]
    if workers and context:
        settings |= {"multiprocessing_context": context}
    loader: Any = DataLoader(dataset(), num_workers=workers, **settings)
    model = torch.nn.LazyLinear(1)
    for epoch in range(2):
        for batch in loader:
            x = torch.as_tensor(batch)
            if not epoch:
                model(x)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
            model(x).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
