"""startup_epochs: the worker lives as long as the training."""

import time

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self, count):
        self.count, self.vocabulary = count, {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.arange(64).add(index).remainder(256), index % 2


def read_vocabulary(worker):
    dataset = torch.utils.data.get_worker_info().dataset
    for number in range(planted.amount(400_000)):
        dataset.vocabulary[f"word{number}"] = number


def train(epochs=8):
    loader = DataLoader(
        Lines(8 * 20), 8, num_workers=1, worker_init_fn=read_vocabulary,
        persistent_workers=True,
    )  # fmt: skip
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    starting = 0.0
    for epoch in range(epochs):
        begin = time.perf_counter()
        for number, (tokens, labels) in enumerate(loader):
            if number == 0:
                starting += time.perf_counter() - begin
            loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {time.perf_counter() - begin:.2f} s")
    planted.charge("input-worker-startup", starting)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with planted.training():
        train()
