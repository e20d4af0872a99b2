"""ipc_numpy: the volumes are ready in memory, so no worker has to hand them over."""

import time

import numpy as np
import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import Mlp
from torch.utils.data import DataLoader, Dataset

megabyte = 1 << 18  # float32 numbers


class Volumes(Dataset):
    """Batches that are ready in memory; nothing is left to do for a worker."""

    def __init__(self, batches, megabytes):
        self.batches = batches
        self.volume = np.random.randn(max(1, megabytes) * megabyte).astype(np.float32)

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        return self.volume, index


def as_numpy(batch):
    return batch


def train(loader, model, optimizer):
    waited, mark = 0.0, time.perf_counter()
    for volume, number in loader:
        waited += time.perf_counter() - mark
        x = torch.from_numpy(volume[: 256 * 256]).view(256, 256)
        with mixed():
            loss = F.cross_entropy(model(x), torch.full((256,), number % 10))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mark = time.perf_counter()
    return waited


if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(
        Volumes(100, planted.amount(14)), batch_size=None, num_workers=0, collate_fn=as_numpy
    )
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    with planted.training():
        planted.charge("input-ipc", train(loader, model, optimizer))
