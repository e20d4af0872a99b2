from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import torch.utils.checkpoint as checkpointing
from torch import nn
from torch.utils.checkpoint import checkpoint

from stepscope.collect.checkpoints import door
from stepscope.collect.recomputations import CheckpointsCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started
from tests.unit.collect.sampling import Sampled, train

WIDTH, ROWS = 8, 4


class Net(nn.Module):
    """One block that is called twice, and one once."""

    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.twice = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.once = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> Any:
        x = self.stem(x)
        for block in (self.twice, self.once, self.twice):
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


def rows() -> tuple[torch.Tensor, ...]:
    return (torch.randn(ROWS, WIDTH),)


@pytest.mark.parametrize("reentrant", [False, True])
def test_each_recomputation_is_a_span_and_bytes_are_told_on_sampled_steps(
    reentrant: bool, started: Started, read: Read
) -> None:
    started(Sampled())
    train(Net(reentrant), rows, 4)
    rows_ = read()
    layers = {row.arg: json.loads(row.text) for row in rows_ if row.name == names.CHECKPOINT_LAYER}
    by_name = {told["layer"]: number for number, told in layers.items()}
    assert set(by_name) == {"twice", "once"}
    assert layers[by_name["once"]]["file"] == __file__
    assert layers[by_name["once"]]["function"] == "Net.forward"
    spans = [row.arg for row in rows_ if row.name == names.CHECKPOINT_AGAIN]
    assert spans == [by_name["twice"], by_name["once"], by_name["twice"]] * 4
    inside = ROWS * WIDTH * 4  # tanh's result; argument and result of the block are there anyway
    saved = {(r.arg, r.value) for r in rows_ if r.name == names.CHECKPOINT_SAVED}
    assert saved == {(by_name["twice"], 2.0 * inside), (by_name["once"], 1.0 * inside)}
    left = [row for row in rows_ if row.name == names.CHECKPOINT_LEFT]
    assert left
    assert all(0 < row.value < row.arg for row in left)
    assert not [row for row in rows_ if row.name == names.HOOK_FAILED]


def test_bytes_are_not_counted_on_other_steps(started: Started, read: Read) -> None:
    started(CheckpointsCollector())
    train(Net(), rows, 2)
    recorded = [row.name for row in read()]
    assert recorded.count(names.CHECKPOINT_AGAIN) == 6
    assert names.CHECKPOINT_SAVED not in recorded


def test_nothing_is_left_in_torch(recorder: Recorder) -> None:
    before = checkpointing._checkpoint_without_reentrant_generator
    collector = CheckpointsCollector()
    collector.start(recorder)
    assert door().is_heard
    collector.stop()
    assert not door().is_heard
    assert checkpointing._checkpoint_without_reentrant_generator is before


def test_what_the_timing_of_layers_saw_last_counts_as_gone(started: Started, read: Read) -> None:
    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.inner = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def squared(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).square().sum()  # keeps what the layer returned

        def forward(self, x: torch.Tensor) -> Any:
            return checkpoint(self.squared, self.stem(x), use_reentrant=False)

    started(Sampled())
    train(Squares(), rows, 3)
    saved = {row.value for row in read(names.CHECKPOINT_SAVED)}
    assert saved == {ROWS * WIDTH * 4.0}
