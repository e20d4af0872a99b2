"""Input pipelines that are slow in one known way each, and the loop that they feed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

SAMPLES = 16  # in a batch
MAIN_CPU_MS, MAIN_WAIT_MS = 6.0, 2.0  # of the loop for each batch: computing, and for a device


def _spin(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number & 7
    return total


def _rounds_per_ms() -> float:
    """The quickest of many: other programs may run on this CPU."""
    took = []
    for _ in range(60):
        began = time.thread_time()
        _spin(20_000)
        took.append(time.thread_time() - began)
    return 20_000 / (min(took) * 1e3)


_SPEED = _rounds_per_ms()


def compute(ms: float) -> None:
    """Work that keeps a CPU busy for so long, when it has that CPU for itself."""
    _spin(round(ms * _SPEED))


def use_batch() -> None:
    """What the loop does with a batch."""
    compute(MAIN_CPU_MS)
    time.sleep(MAIN_WAIT_MS / 1e3)


class Made(Dataset):
    """Samples that take a given time to make."""

    def __init__(self, batches: int, sample: Callable[[int], Any]) -> None:
        self.batches, self.sample = batches, sample

    def __len__(self) -> int:
        return self.batches * SAMPLES

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


class Pipeline(NamedTuple):
    sample: Callable[[int], Any]
    collate: Callable[[Sequence[Any]], Any] = default_collate


def _small(index: int) -> Any:
    return torch.full((64,), float(index))


def _cpu(index: int) -> Any:
    compute(1.0)
    return _small(index)


def _io(index: int) -> Any:
    time.sleep(0.0015)
    return _small(index)


def _mixed(index: int) -> Any:
    compute(0.5)
    time.sleep(0.001)
    return _small(index)


def _slow_collate(samples: Sequence[Any]) -> Any:
    compute(14.0)
    return default_collate(samples)


def _array(index: int) -> Any:
    return np.full(192 * 1024, index % 256, dtype=np.uint8)


def _arrays(samples: Sequence[Any]) -> Any:
    return np.stack([samples[number % SAMPLES] for number in range(2 * SAMPLES)])  # 6 MB


def _skewed(index: int) -> Any:
    compute(40.0 if index % 101 == 50 else 0.3)
    return _small(index)


PIPELINES = {
    "cpu": Pipeline(_cpu),
    "io": Pipeline(_io),
    "mixed": Pipeline(_mixed),
    "collate": Pipeline(_small, _slow_collate),
    "ipc": Pipeline(_array, _arrays),
    "skewed": Pipeline(_skewed),
}
