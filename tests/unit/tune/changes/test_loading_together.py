"""Changes to data loading made at once, under our collectors, in forked and in spawned workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from stepscope.tune.changes import injection_class
from tests.unit.tune.changes.loading import Heard, epochs, watched

ALL: dict[str, dict[str, Any]] = {
    "packing": {},
    "cache": {"limit_bytes": 1 << 24},
    "fetch-threads": {"threads": 2},
    "vectorise": {},
    "batched": {},
    "loader": {"num_workers": 1},
}


class Volumes(Dataset):
    def __init__(self) -> None:
        self.x = np.random.default_rng(1).normal(size=(24, 256, 256))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index] * 2, f"volume {index}"


def joined(samples: list[Any]) -> Any:
    return np.stack([x for x, _ in samples]), [name for _, name in samples]


def install_all(told: Heard, names: list[str]) -> list[Any]:
    changes = [injection_class(name)(ALL[name], told) for name in names]
    for change in changes:
        change.install()
    return changes


def in_spawned(worker: int) -> None:
    """As in a worker that was spawned in a run: the changes are made there anew."""
    install_all(Heard(), [name for name in ALL if name != "loader"])


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("collate", [None, joined])
def test_all_changes_at_once_give_the_same_batches(order: int, collate: Any) -> None:
    def make() -> Any:
        return DataLoader(Volumes(), 4, shuffle=True, collate_fn=collate)

    without = epochs(make, 3)
    told = Heard()
    changes = install_all(told, [*ALL][::order])
    try:
        with watched():
            assert epochs(make, 3) == without
    finally:
        for change in reversed(changes):
            change.undo()

    assert told.errors == []
    done = {what for what, _ in told.done}
    assert "DataLoader(num_workers=1, prefetch_factor=2)" in done
    assert "2 samples are fetched at once" in done
    assert "samples are made once and kept (24 samples so far)" in done
    if collate is joined:
        assert "batches of workers are sent in one piece of shared memory" in done


@pytest.mark.slow  # a new Python imports torch
def test_spawned_workers_give_the_same_and_share_what_is_kept() -> None:
    def make() -> Any:
        return DataLoader(
            Volumes(),
            8,
            collate_fn=joined,
            num_workers=1,
            multiprocessing_context="spawn",
            worker_init_fn=in_spawned,
        )

    without = epochs(lambda: DataLoader(Volumes(), 8, collate_fn=joined), 1)
    told = Heard()
    changes = install_all(told, ["packing", "cache"])
    stores = changes[1]._stored
    try:
        assert epochs(make, 1) == without
        kept = [stored.store.kept for stored in stores.values()]
    finally:
        for change in reversed(changes):
            change.undo()

    assert kept == [24]
    assert told.errors == []


def test_nothing_is_left_when_changes_are_undone() -> None:
    from torch.utils.data import dataloader

    before = [dict(vars(dataloader.DataLoader)), dict(vars(dataloader._DatasetKind))]
    for change in reversed(install_all(Heard(), [*ALL])):
        change.undo()

    assert [dict(vars(dataloader.DataLoader)), dict(vars(dataloader._DatasetKind))] == before
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__init__.__qualname__ == (
        "_BaseDataLoaderIter.__init__"
    )
