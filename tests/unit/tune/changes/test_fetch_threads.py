"""Samples fetched by threads: in their order, and only where threads are in nobody's way."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from stepscope.tune.changes.fetch_threads import FetchThreads
from tests.unit.tune.changes.loading import epochs, made, watched

COUNT = 24
ASKED = ContextVar("ASKED", default="nobody")


class Remote(Dataset):
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index)), index


class Together(Remote):
    """Samples after the first two batches wait until four of them are being fetched."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(4, timeout=60)
        self.alone = {*range(4)}

    def __getitem__(self, index: int) -> Any:
        if index not in self.alone:
            self.barrier.wait()
        return index, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), ASKED.get()


class Random(Remote):
    def __getitem__(self, index: int) -> Any:
        return index + random.random()


class OwnRandom(Remote):
    def __init__(self) -> None:
        self.tools = {"generator": torch.Generator().manual_seed(1)}

    def __getitem__(self, index: int) -> Any:
        return torch.rand(2, generator=self.tools["generator"])


class Connected(Remote):
    """Opens what it talks over with the first sample."""

    connection: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.connection is None:
            self.connection = [index]
        return index


class File(Remote):
    def __init__(self) -> None:
        self.file: Any = None

    def __getitem__(self, index: int) -> Any:
        with open(__file__) as file:  # noqa: PTH123 - as programs do
            self.file = file
            self.file.seek(index)
            return self.file.read(3)


class Racing(Remote):
    """Threads get in each other's way, and nothing that it holds tells."""

    def __getitem__(self, index: int) -> Any:
        return index, threading.current_thread().name


class Failing(Remote):
    def __getitem__(self, index: int) -> Any:
        if index >= 17:
            raise KeyError(f"no sample {index}")
        return index


class Whole(Remote):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return indices


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_the_same(workers: int, persistent: bool) -> None:
    def make() -> Any:
        stay = persistent and workers > 0
        return DataLoader(Remote(), 5, shuffle=True, num_workers=workers, persistent_workers=stay)

    without = epochs(make)
    with made(FetchThreads, {"threads": 3}) as told, watched():
        assert epochs(make) == without

    assert [what for what, _ in told.done] == ["3 samples are fetched at once"]


@pytest.mark.parametrize("inference", [False, True])
def test_samples_are_under_way_at_once_in_the_mode_of_who_asked(inference: bool) -> None:
    ASKED.set("the program")
    with made(FetchThreads, {"threads": 4}), torch.inference_mode(inference), torch.no_grad():
        batches = [*DataLoader(Together(), 4, collate_fn=tuple)]

    assert [sample for batch in batches for sample in batch] == [
        (index, False, inference, "the program") for index in range(COUNT)
    ]


REFUSED: dict[str, Any] = {
    "drawn at random, in the order": lambda: DataLoader(Random(), 4),
    "drawn at random": lambda: DataLoader(OwnRandom(), 4),
    "changes 'connection'": lambda: DataLoader(Connected(), 4),
    "changes 'file'": lambda: DataLoader(File(), 4),
    "is not the same": lambda: DataLoader(Racing(), 4),
    "makes whole batches": lambda: DataLoader(Whole(), 4),
    "one by one": lambda: DataLoader(Remote(), None),
    "are asked for one by one": lambda: DataLoader(Stream(), 2),
}


@pytest.mark.parametrize("why", REFUSED)
def test_where_threads_would_be_in_the_way_it_stays_as_it_was(why: str) -> None:
    without = epochs(REFUSED[why])
    with made(FetchThreads) as told:
        assert epochs(REFUSED[why]) == without

    assert told.done == []
    assert why in told.why


def test_the_first_error_of_a_batch_is_raised() -> None:
    with made(FetchThreads):
        batches: Any = iter(DataLoader(Failing(), 4))
        assert [next(batches).tolist()[0] for _ in range(4)] == [0, 4, 8, 12]
        with pytest.raises(KeyError, match="no sample 17"):
            next(batches)
