"""What the pages leave to the reader: a model, data, things that take time, leak and fail."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["preamble", "training"]

_kept: list[bytearray] = []


class _OnNoGpu(list[float]):
    """There is no GPU here: moving to it leaves things where they are."""

    def cuda(self) -> _OnNoGpu:
        return self

    def __call__(self, batch: _OnNoGpu) -> list[float]:
        return [2 * value for value in batch]


def _keep(data: bytearray) -> None:
    _kept.append(data)
    time.sleep(0.01)


def _fail() -> None:
    time.sleep(0.02)
    raise OSError("the disk is gone")


def _slow(value: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return value


def _burn(value: Any, seconds: float) -> Any:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return value


class _Images:
    """A dataset whose samples take some CPU time."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, at: int) -> Any:
        import torch

        return _burn((torch.full((8,), float(at)), torch.zeros(1)), 0.001)


def training() -> dict[str, Any]:
    """A small model, and what it needs."""
    import torch
    from torch import nn

    model = nn.Linear(8, 1)
    return {
        "dataset": _Images(),
        "loader": torch.utils.data.DataLoader(_Images(), batch_size=8),
        "augment": lambda data: _slow(data, 0.005),
        "model": model,
        "criterion": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "tokenise": lambda: _burn([1], 0.05),
        "image": torch.zeros(3, 64, 64),
        "images": torch.randn(16, 3, 8, 8),
        "torch": torch,
        "resize": lambda image: _slow(image * 2, 0.005),
    }


def preamble() -> dict[str, Any]:
    return {
        "__name__": "__main__",
        "train_epoch": lambda: time.sleep(0.01),
        "load_dataset": lambda: _slow([1, 2], 0.02),
        "preprocess": lambda data: _slow(data, 0.01),
        "train_model": lambda data: _slow(sum(data), 0.03),
        "LargeModel": _OnNoGpu,
        "dataloader": [_OnNoGpu([1.0]), _OnNoGpu([2.0])],
        "allocate_data": lambda: bytearray(b"x" * 2**20),
        "process_data": _keep,
        "risky_operation": _fail,
    }
