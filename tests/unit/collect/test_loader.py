from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)

from stepscope.collect.loader import LoaderCollector, loader_settings
from stepscope.collect.source import source_of_dataset
from stepscope.model import names
from stepscope.model.event import Flag
from tests.unit.collect.conftest import Read, Started


class Squares(Dataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        return index * index


class Batched(Squares):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return [index * index for index in indices]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


def slowly(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Decorated(Dataset):
    @slowly
    def __getitem__(self, index: int) -> int:
        return index


def test_iter_and_every_next_are_spans_of_the_iterator(started: Started, read: Read) -> None:
    started(LoaderCollector())
    iterator = iter(DataLoader(Squares(), batch_size=2))

    batches = [batch.tolist() for batch in iterator]

    assert batches == [[0, 1], [4, 9], [16]]
    spans = [(row.name, row.arg, row.flags) for row in read() if row.name != names.LOADER]
    made = id(iterator)
    assert spans[0] == (names.INPUT_ITER, made, 0)
    assert spans[1:4] == [(names.INPUT_NEXT, made, 0)] * 3
    assert spans[4:] == [(names.INPUT_NEXT, made, Flag.FAILED)], "the last one was exhausted"


def test_the_mark_tells_the_settings_and_where_a_sample_is_made(
    started: Started, read: Read
) -> None:
    started(LoaderCollector())
    iterator = iter(DataLoader(Squares(), batch_size=2))

    (mark,) = read(names.LOADER)

    assert mark.arg == id(iterator)
    assert json.loads(mark.text) == {
        "workers": 0,
        "batch_size": 2,
        "prefetch_factor": None,
        "persistent_workers": False,
        "pin_memory": False,
        "multiprocessing_context": None,
        "iterable": False,
        "dataset": "Squares",
        "file": __file__,
        "line": Squares.__getitem__.__code__.co_firstlineno,
        "function": "Squares.__getitem__",
    }


def test_settings_of_other_loaders() -> None:
    workers = DataLoader(
        Stream(), batch_size=None, num_workers=2, multiprocessing_context="spawn",
        persistent_workers=True,
    )  # fmt: skip

    told = loader_settings(workers)

    assert told["iterable"] is True
    assert told["batch_size"] is None
    assert (told["workers"], told["prefetch_factor"]) == (2, 2)
    assert (told["multiprocessing_context"], told["persistent_workers"]) == ("spawn", True)


def test_losses_are_the_same_because_the_random_numbers_are(started: Started) -> None:
    def draw() -> tuple[list[Any], float]:
        torch.manual_seed(3)
        batches = [b.tolist() for b in DataLoader(Squares(), batch_size=2, shuffle=True)]
        return batches, torch.rand(1).item()

    bare = draw()
    started(LoaderCollector())

    assert draw() == bare


@pytest.mark.parametrize(
    ("dataset", "function"),
    [
        (Squares(), "Squares.__getitem__"),
        (Batched(), "Batched.__getitems__"),
        (Stream(), "Stream.__iter__"),
        (Decorated(), "Decorated.__getitem__"),
        (Subset(Squares(), [0]), "Squares.__getitem__"),
        (random_split(Squares(), [3, 2])[0], "Squares.__getitem__"),
        (ConcatDataset([Subset(Squares(), [1]), Squares()]), "Squares.__getitem__"),
        (StackDataset(a=Squares()), "Squares.__getitem__"),
    ],
)
def test_the_source_is_that_of_the_innermost_dataset_of_the_user(
    dataset: Any, function: str
) -> None:
    found = source_of_dataset(dataset)

    assert found["function"] == function
    assert found["file"] == __file__


def test_a_dataset_without_python_code_has_no_source() -> None:
    assert source_of_dataset([1, 2, 3]) == {"dataset": "list"}


def test_a_dataset_of_torch_itself_is_told_as_such() -> None:
    found = source_of_dataset(TensorDataset(torch.ones(2)))

    assert found["dataset"] == "TensorDataset"
    assert found["function"] == "TensorDataset.__getitem__"


def test_a_dataset_that_contains_itself_does_not_hang() -> None:
    endless = Subset(Squares(), [0])
    endless.dataset = endless

    assert source_of_dataset(endless)["dataset"] == "Subset"
