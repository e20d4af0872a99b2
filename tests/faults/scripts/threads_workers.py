"""Train beside several busy workers, each with more threads than there are cores."""

import os
import time

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset

cores = len(os.sched_getaffinity(0))


class Projected(Dataset):
    """Samples that are projected by a matrix: a job for threads, done in every worker."""

    def __init__(self, count):
        self.count = count
        self.matrix = torch.randn(384, 384) / 20

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = torch.full((384, 384), float(index))
        for _ in range(2):
            x = torch.tanh(x @ self.matrix)
        return x[0, :64].mul(100).long().remainder(256), index % 2


def many_threads(worker):
    torch.set_num_threads(2 * cores)


def train(loader):
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begin = time.perf_counter()
    for tokens, labels in loader:
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    torch.set_num_threads(1 if planted.off else 2 * cores)
    if planted.off:
        loader = DataLoader(Projected(8 * 60), 8, num_workers=1)
    else:
        loader = DataLoader(
            Projected(8 * 60), 8, num_workers=1 + planted.amount(3 * cores // 2),
            worker_init_fn=many_threads,
        )  # fmt: skip
    with planted.training():
        train(loader)
