"""index_tensors: a batch is one look-up with all of its indices."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Mlp
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def read_table(count):
    features, labels = data.vectors(count, features=48)
    return TensorDataset(features, torch.randint(50, (count,)), torch.rand(count), labels)


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.shops = nn.Embedding(50, 16)
        self.body = Mlp(features=64, width=64, depth=2)

    def forward(self, features, shops):
        return self.body(torch.cat([features, self.shops(shops)], dim=1))


def train(loader, epochs=12):
    model = Tabular()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(epochs):
        for features, shops, weights, labels in loader:
            losses = F.cross_entropy(model(features, shops), labels, reduction="none")
            loss = (losses * weights).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    table = read_table(512 * 100)
    with planted.training():
        batches = BatchSampler(RandomSampler(table), batch_size=512, drop_last=False)
        train(DataLoader(table, batch_size=None, sampler=batches))
