"""Made-up data that a model can learn something from."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, TensorDataset

classes = 10


def vectors(count: int, features: int = 256) -> tuple[Tensor, Tensor]:
    labels = torch.randint(classes, (count,))
    centres = torch.randn(classes, features)
    return torch.randn(count, features) + 0.3 * centres[labels], labels


def images(count: int, side: int = 32) -> tuple[Tensor, Tensor]:
    labels = torch.randint(classes, (count,))
    return torch.randn(count, 3, side, side) + labels[:, None, None, None] / classes, labels


def texts(count: int, length: int = 64, vocab: int = 256) -> Tensor:
    """Each token is the one before it and a small step up or down."""
    steps = torch.randint(-3, 4, (count, length))
    return steps.cumsum(dim=1).remainder(vocab)


class Shuffled(Sampler):
    """Indices of whole batches, as tensors."""

    def __init__(self, count: int, size: int):
        self.count, self.size = count - count % size, size

    def __len__(self) -> int:
        return self.count // self.size

    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.randperm(self.count).split(self.size))


def batches(size: int, *tensors: Tensor) -> DataLoader:
    """Batches of tensors in memory: each is one index operation, not one for each sample."""
    return DataLoader(
        TensorDataset(*tensors), batch_size=None, sampler=Shuffled(len(tensors[0]), size)
    )
