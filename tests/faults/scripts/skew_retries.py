"""Train on images of which a few are damaged and are repaired, at length, when they come up."""

import time
import zlib

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    damaged = frozenset(range(100, 8 * 160, 170))

    def __init__(self, count):
        self.count = count
        self.packed = zlib.compress(bytes(range(256)) * 12)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        raw = self.repair() if index in self.damaged else zlib.decompress(self.packed)
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(3, 32, 32) / 255, index % 10

    def repair(self):
        """Try one offset after the other until the picture unpacks."""
        raw = zlib.decompress(self.packed)
        for _ in range(planted.amount(42_000, least=5000)):
            raw = zlib.decompress(self.packed)
        return raw


class Run:
    def __init__(self):
        self.model = ConvNet()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02)
        self.waited = 0.0

    def batch(self, images, labels):
        with mixed():
            loss = F.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def epoch(self, loader):
        batches = iter(loader)
        while True:
            mark = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - mark
            if batch is None:
                return
            self.batch(*batch)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run = Run()
    with planted.training():
        run.epoch(DataLoader(Archive(8 * 160), 8, num_workers=2, prefetch_factor=2))
        planted.charge("input-skew", run.waited)
