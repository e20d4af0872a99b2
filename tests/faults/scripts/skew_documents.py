"""Train on documents of which few are very long: the worker that has one holds up all others."""

import time

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset

longest = planted.amount(2_400_000, least=200_000)  # characters


class Documents(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return clean(length_of(index)), index % 2


def length_of(index):
    return max(400, longest) if index % 200 == 133 else 400  # one in 25 batches has a long one


def clean(length):
    """Characters of the document, each looked at once."""
    seen = 0
    for place in range(length):
        seen = (seen * 31 + place) & 255
    return torch.arange(64).add(seen).remainder(256)


def train(loader):
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    waited, mark = 0.0, time.perf_counter()
    for tokens, labels in loader:
        waited += time.perf_counter() - mark
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mark = time.perf_counter()
    return waited


if __name__ == "__main__":
    torch.set_num_threads(1)
    with planted.training():
        planted.charge("input-skew", train(DataLoader(Documents(8 * 200), 8, num_workers=2)))
