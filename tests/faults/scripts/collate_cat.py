"""Train on point clouds whose batch is grown in the worker by one concatenation after another."""

import time

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import Mlp
from torch.utils.data import DataLoader, Dataset


class Clouds(Dataset):
    def __init__(self, count, points):
        self.clouds = torch.randn(64, points, 16)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.clouds[index % 64], index % 10


def join(samples):
    """All points of all clouds in one table, and the mean of each cloud."""
    table = torch.zeros(0, 16)
    means = []
    for cloud, _ in samples:
        for point in cloud.split(8):
            table = torch.cat([table, point])
        means.append(table[-len(cloud) :].mean(dim=0).repeat(16))
    return torch.stack(means), torch.tensor([label for _, label in samples])


def main(steps=80):
    torch.set_num_threads(1)
    loader = DataLoader(Clouds(128 * steps, 8 * (planted.amount(10) or 1)), 128, num_workers=1,
                        collate_fn=join)  # fmt: skip
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    waited = 0.0
    with planted.training():
        mark = time.perf_counter()
        for x, y in loader:
            waited += time.perf_counter() - mark
            for _ in range(3):  # three passes over each batch
                with mixed():
                    loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            mark = time.perf_counter()
        planted.charge("input-collate", waited)


if __name__ == "__main__":
    main()
