"""One index operation for a batch: the same batches, whatever the dataset and the loader."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from stepscope.tune.changes.batched import Batched
from tests.unit.tune.changes.loading import epochs, made, watched

COUNT = 42
TENSORS = TensorDataset(torch.randn(COUNT, 3, 2), torch.arange(COUNT), torch.rand(COUNT) > 0.5)


class Pair(NamedTuple):
    x: Any
    y: Any


class Own(Dataset):
    """Tensors and arrays of a program, indexed."""

    def __init__(self) -> None:
        self.x = torch.randn(COUNT, 4, generator=torch.Generator().manual_seed(1))
        self.array = np.arange(COUNT * 2, dtype=np.int16).reshape(COUNT, 2)
        self.mean = self.x.mean(0)
        self.shift: Any = None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: Any) -> Any:
        x = (self.x[index] - self.mean) / 2.0
        if self.shift is not None:
            x = x + self.shift
        return x.to(torch.float64), self.array[index], index % 7


class Named(Own):
    def __getitem__(self, index: Any) -> Any:
        return Pair(self.x[index], {"label": self.array[index].astype(np.float32)})


class Broken(Own):
    """One sample of many is another, and the first batches do not tell."""

    def __getitem__(self, index: Any) -> Any:
        if index in {40, 41}:
            return torch.zeros(4)
        return self.x[index]


class Normed(Own):
    def __init__(self) -> None:
        super().__init__()
        self.x[:, 0] = 9.0  # the maximum of every sample, and of every batch

    def __getitem__(self, index: Any) -> Any:
        return self.x[index] / self.x[index].max()


class Rows(Own):
    """Takes a batch for something else."""

    def __getitem__(self, index: Any) -> Any:
        return self.x[index][0]


class Random(Own):
    def __getitem__(self, index: Any) -> Any:
        return self.x[index] + self.noise()

    def noise(self) -> Any:
        return torch.rand(4)


class Whole(Own):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self.x[index] for index in indices]


SAME: dict[str, Any] = {
    "tensors": lambda: DataLoader(TENSORS, 4, shuffle=True),
    "tensors, a generator": lambda: DataLoader(
        TENSORS, 4, shuffle=True, generator=torch.Generator().manual_seed(2), drop_last=True
    ),
    "a worker": lambda: DataLoader(TENSORS, 4, shuffle=True, num_workers=1),
    "a worker that stays": lambda: DataLoader(
        TENSORS, 4, shuffle=True, num_workers=1, persistent_workers=True
    ),
    "a subset of a subset": lambda: DataLoader(
        Subset(Subset(TENSORS, range(1, 40, 2)), np.array([3, 5, 0, 7, 7])), 2
    ),
    "a batch sampler": lambda: DataLoader(TENSORS, batch_sampler=[[1, 2], [-1, 3], [5]]),
    "a dataset of its own": lambda: DataLoader(Own(), 4, shuffle=True),
    "a subset of its own": lambda: DataLoader(Subset(Own(), [*range(30)]), 4, shuffle=True),
    "its own, in a worker": lambda: DataLoader(Own(), 4, shuffle=True, num_workers=1),
    "names": lambda: DataLoader(Named(), 4),
}


@pytest.mark.parametrize("way", SAME)
def test_batches_are_the_same_to_the_bit(way: str) -> None:
    without = epochs(SAME[way])
    with made(Batched) as told, watched():
        assert epochs(SAME[way]) == without

    (site,) = {site for _, site in told.done}
    assert site is not None
    assert told.not_done == []


REFUSED: dict[str, Any] = {
    "may treat one sample otherwise": lambda: DataLoader(Broken(), 4),
    "calls max": lambda: DataLoader(Normed(), 4),
    "not what its samples give": lambda: DataLoader(Rows(), 4),
    "calls rand": lambda: DataLoader(Random(), 4),
    "makes whole batches itself": lambda: DataLoader(Whole(), 4),
    "wants samples": lambda: DataLoader(TENSORS, 4, collate_fn=tuple),
    "no batches": lambda: DataLoader(TENSORS, None),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_could_come_out_otherwise_is_refused_and_stays_as_it_was(why: str) -> None:
    without = epochs(REFUSED[why])
    with made(Batched) as told:
        assert epochs(REFUSED[why]) == without

    assert told.done == []
    assert why in told.why


def test_samples_are_asked_for_by_themselves_in_the_first_batches_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset = Own()
    asked: list[Any] = []
    plain = Own.__getitem__

    def counted(dataset: Own, index: Any) -> Any:
        asked.append(index)
        return plain(dataset, index)

    with made(Batched):
        loader: Any = DataLoader(dataset, 4)
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        # Only now: what is counted here is not in the source that is read before.
        monkeypatch.setattr(Own, "__getitem__", counted)
        list(batches)
        list(loader)

    # In later passes the first batch is made both ways, for the program may have changed its data.
    first, second = asked[:8], asked[8:]
    assert [len(one) for one in first] == [4] * 7 + [2]
    assert second[:4] == [0, 1, 2, 3]
    assert [len(one) for one in second[4:]] == [4] * 10 + [2]


def test_an_index_out_of_range_is_torchs_own_error() -> None:
    with made(Batched), pytest.raises(IndexError):
        list(DataLoader(TENSORS, batch_sampler=[[COUNT]]))
