"""Other settings for a loader: the same batches, by other workers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    get_worker_info,
)

from stepscope.errors import UsageError
from stepscope.tune.changes.loader import Loader
from stepscope.tune.loading.settings import with_settings
from tests.unit.tune.changes.loading import epochs, made, watched

TENSORS = TensorDataset(torch.randn(22, 3), torch.arange(22))


class Eager:
    """A batch sampler that draws when it is asked for its iterator, not at the first batch."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter(torch.randperm(22).view(-1, 11).tolist())

    def __len__(self) -> int:
        return 2


class Scaled(Dataset):
    def __init__(self) -> None:
        self.scale = 1

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int]:
        info = get_worker_info()
        return index * self.scale, -1 if info is None else info.id


class Unpicklable(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.function = lambda x: x


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


WAYS: dict[str, Any] = {
    "in order": lambda: DataLoader(TENSORS, 4),
    "shuffled": lambda: DataLoader(TENSORS, 4, shuffle=True, drop_last=True),
    "with a generator": lambda: DataLoader(
        TENSORS, 4, shuffle=True, generator=torch.Generator().manual_seed(5)
    ),
    "one by one": lambda: DataLoader(TENSORS, None, sampler=RandomSampler(TENSORS)),
    "an eager batch sampler": lambda: DataLoader(TENSORS, batch_sampler=Eager()),
    "a collate_fn": lambda: DataLoader(TENSORS, 4, collate_fn=tuple),
}


@pytest.mark.parametrize("way", WAYS)
def test_workers_that_stay_give_the_same_batches_and_the_same_random_numbers(way: str) -> None:
    without = epochs(WAYS[way])

    with made(Loader, {"num_workers": 1, "persistent_workers": True}) as told:
        assert epochs(WAYS[way]) == without

    ((what, site),) = told.done
    assert what == "DataLoader(num_workers=1, persistent_workers=True, prefetch_factor=2)"
    assert site is not None
    assert Path(site.file).name == "test_loader.py"
    assert "DataLoader(" in Path(site.file).read_text().splitlines()[site.line - 1]


def test_a_change_is_told_under_the_line_that_made_the_loader_with_collectors_too() -> None:
    with made(Loader, {"num_workers": 1}) as told, watched():
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        loader: Any = DataLoader(Scaled(), 2)
        workers = [ids.tolist() for _, ids in loader]

    assert workers == [[0, 0], [0, 0]]
    ((_, site),) = told.done
    assert site is not None
    assert site.line == line


def test_fewer_workers_give_the_same_too() -> None:
    def make() -> Any:
        return DataLoader(TENSORS, batch_sampler=Eager(), num_workers=1, timeout=60)

    without = epochs(make, 1)

    with made(Loader, {"num_workers": 0}) as told:
        assert epochs(make, 1) == without

    assert [what for what, _ in told.done] == ["DataLoader(num_workers=0)"]


def test_a_loader_of_an_evaluation_is_left_as_it_is() -> None:
    with made(Loader, {"num_workers": 1}) as told, torch.no_grad():
        loader: Any = DataLoader(Scaled(), 4)
        assert [ids.tolist() for _, ids in loader] == [[-1] * 4]

    assert (told.done, told.not_done) == ([], [])


def test_a_site_names_the_one_loader_that_is_meant() -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with made(Loader, {"num_workers": 1, "site": {"file": __file__, "line": line}}) as told:
        meant: Any = DataLoader(Scaled(), 4)
        other: Any = DataLoader(Scaled(), 4)
        with torch.no_grad():
            assert [ids.tolist() for _, ids in meant] == [[0] * 4]
        assert [ids.tolist() for _, ids in other] == [[-1] * 4]

    assert len(told.done) == 1


def test_a_dataset_that_is_changed_between_epochs_reaches_workers_that_stay() -> None:
    with made(Loader, {"num_workers": 1, "persistent_workers": True}):
        dataset = Scaled()
        loader: Any = DataLoader(dataset, 4)
        before = [numbers.tolist() for numbers, _ in loader]
        first = loader._iterator
        again = [numbers.tolist() for numbers, _ in loader]
        kept = loader._iterator is first
        dataset.scale = 10
        after = [numbers.tolist() for numbers, _ in loader]

    assert kept
    assert (before, again, after) == ([[0, 1, 2, 3]], [[0, 1, 2, 3]], [[0, 10, 20, 30]])


def test_a_look_at_a_batch_in_the_middle_of_a_pass_leaves_the_pass_alone() -> None:
    def seen() -> list[Any]:
        torch.manual_seed(1)
        loader: Any = DataLoader(TENSORS, 4, shuffle=True)
        batches = []
        for number, (_, labels) in enumerate(loader):
            batches.append(labels.tolist())
            if number == 1:
                batches.append(next(iter(loader))[1].tolist())
        return [*batches, torch.rand(1).item()]

    without = seen()
    with made(Loader, {"num_workers": 1, "persistent_workers": True}):
        assert seen() == without


def test_two_passes_at_once_are_two_passes() -> None:
    with made(Loader, {"num_workers": 1, "persistent_workers": True}):
        loader: Any = DataLoader(TENSORS, 4, shuffle=True)
        pairs = [*zip(loader, loader, strict=True)]

    for batches in zip(*pairs, strict=True):
        assert sorted(torch.cat([labels for _, labels in batches]).tolist()) == [*range(22)]


def test_workers_that_cannot_start_leave_the_loader_as_it_was() -> None:
    def make() -> Any:
        return DataLoader(Unpicklable(), 2, shuffle=True)

    without = epochs(make)

    with made(Loader, {"num_workers": 1, "multiprocessing_context": "spawn"}) as told:
        # Warnings are errors here, and torch warns of it besides: that keeps a worker too.
        assert epochs(make) == without

    assert told.done == []
    assert "could not start" in told.why


def test_a_stream_is_shared_out_anew_only_where_that_is_allowed() -> None:
    with made(Loader, {"num_workers": 1}) as told:
        loader: Any = DataLoader(Stream(), 2)
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    assert "whole stream" in told.why

    with made(Loader, {"num_workers": 1, "iterable": True}) as told:
        loader = DataLoader(Stream(), 2)
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    assert len(told.done) == 1


def test_an_open_file_is_not_shared_among_workers(tmp_path: Path) -> None:
    dataset: Any = Scaled()
    with (
        (tmp_path / "records").open("wb") as dataset.file,
        made(Loader, {"num_workers": 1}) as told,
    ):
        list(DataLoader(dataset, 2))

    assert "its open file 'file'" in told.why


def test_pinned_memory_needs_an_accelerator() -> None:
    with made(Loader, {"pin_memory": True}) as told:
        list(DataLoader(TENSORS, 22))

    assert "there is none" in told.why


def test_a_stateful_loader_is_refused_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    class StatefulDataLoader:
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    module = ModuleType("torchdata.stateful_dataloader")
    module.StatefulDataLoader = StatefulDataLoader  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)

    with made(Loader, {"num_workers": 1}) as told:
        assert list(StatefulDataLoader()) == [1]

    assert "StatefulDataLoader" in told.why


@pytest.mark.parametrize("way", WAYS)
def test_a_new_loader_with_other_settings_gives_the_same(way: str) -> None:
    without = epochs(WAYS[way])
    settings = {"num_workers": 1, "persistent_workers": True, "prefetch_factor": 3}

    loader = WAYS[way]()
    new = with_settings(loader, settings)

    assert (new.num_workers, new.prefetch_factor, new.persistent_workers) == (1, 3, True)
    assert loader.num_workers == 0
    again = with_settings(WAYS[way](), settings)
    assert epochs(lambda: again) == without


def test_settings_that_cannot_be_are_an_error() -> None:
    with pytest.raises(UsageError, match="whole stream"):
        with_settings(DataLoader(Stream()), {"num_workers": 2})
