from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from stepscope.tune.same_batches import compare_batches, why_no_workers


class Plain(TensorDataset):
    def __init__(self) -> None:
        super().__init__(torch.arange(32.0))


def test_two_loaders_over_the_same_data_are_the_same() -> None:
    one, other = (DataLoader(Plain(), batch_size=4, shuffle=True) for _ in range(2))
    same = compare_batches(one, other)
    assert same.are_same
    assert same.why == "the first 3 batches are the same to the bit"


def test_another_order_is_not_the_same() -> None:
    one, other = (DataLoader(Plain(), batch_size=4, shuffle=shuffle) for shuffle in (True, False))
    same = compare_batches(one, other)
    assert not same.are_same
    assert "others" in same.why


def test_batches_that_cannot_be_looked_into_are_not_the_same() -> None:
    def hidden(samples: Any) -> Any:
        return lambda: samples

    loader = DataLoader(Plain(), batch_size=4, collate_fn=hidden)
    same = compare_batches(loader, loader)
    assert not same.are_same
    assert "cannot be compared" in same.why


def test_samples_without_batches_are_compared_too() -> None:
    class Drawn(Plain):
        def __getitem__(self, at: int) -> Any:
            return torch.rand(1)

    one = DataLoader(Drawn(), batch_size=None)
    other = DataLoader(Drawn(), batch_size=None, num_workers=1)
    same = compare_batches(one, other)
    assert same.are_same
    assert "drawn in the workers" in same.why


def test_a_dataset_that_counts_is_not_for_workers() -> None:
    class Counting(Plain):
        count = 0

        def read(self) -> None:
            self.count += 1

    dataset = Counting()
    assert why_no_workers(dataset, lambda: None) == ""
    assert "changes the dataset (count)" in why_no_workers(dataset, dataset.read)
