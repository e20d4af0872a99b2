"""Larger batches."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from stepscope.tune.changes.batch import Batch
from tests.unit.tune.changes.host_support import installed

DATA = TensorDataset(torch.arange(24.0))


def make(*args: object, **more: object) -> DataLoader[object]:
    return DataLoader(*args, **more)


def sizes(loader: DataLoader[object]) -> list[int]:
    return [len(batch[0]) for batch in loader]


def test_a_shuffling_loader_gives_so_many_times_more_samples() -> None:
    with installed(Batch, factor=3) as (_, heard):
        assert sizes(make(DATA, 4, True)) == [12, 12]
        assert sizes(make(DATA, batch_size=4, sampler=RandomSampler(DATA))) == [12, 12]
    assert heard.whats == ["DataLoader(batch_size=12)"] * 2
    assert set(heard.functions) == {"make"}


def test_loaders_that_evaluate_or_draw_their_own_batches_stay() -> None:
    with installed(Batch, factor=3) as (_, heard):
        assert sizes(make(DATA, 4)) == [4] * 6
        assert sizes(make(DATA, batch_sampler=[[0, 1], [2]])) == [2, 1]
        assert len(list(make(DATA, batch_size=None, shuffle=False))) == 24
    assert heard.done == []


def test_batches_that_the_dataset_cannot_fill_are_refused() -> None:
    with installed(Batch, factor=3) as (_, heard):
        assert sizes(make(DATA, 16, True, drop_last=True)) == [16]
    assert heard.no == ["48 samples a batch are more than the dataset has."]


def test_all_samples_come_once() -> None:
    with installed(Batch, factor=2):
        got = torch.cat([batch[0] for batch in make(DATA, 4, True)])
    assert sorted(got.tolist()) == list(range(24))


def test_errors_pass_and_undo_puts_back() -> None:
    before = DataLoader.__init__
    with installed(Batch, factor=2):
        with pytest.raises(TypeError, match="unexpected"):
            make(DATA, size=4)
        with pytest.raises(ValueError, match="mutually exclusive"):
            make(DATA, shuffle=True, sampler=RandomSampler(DATA))
    assert DataLoader.__init__ is before
