"""Forward spends 70 : 30 in two functions, the dataset's time in one; --workers, --start."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--start", default="fork")
parser.add_argument("--steps", type=int, default=60)
options = parser.parse_args()


def dear():
    end = time.thread_time_ns() + 21_000_000
    while time.thread_time_ns() < end:
        pass


def cheap():
    end = time.thread_time_ns() + 9_000_000
    while time.thread_time_ns() < end:
        pass


class Noise(Dataset):
    def __len__(self):
        return options.steps

    def __getitem__(self, index):
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        decode()
        return x, x.sum(0, keepdim=True)


def decode():
    time.sleep(0.02)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        dear()
        cheap()
        return self.layers(x)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    context = options.start if options.workers else None
    workers = {"num_workers": options.workers, "multiprocessing_context": context}
    for x, y in DataLoader(Noise(), batch_size=1, **workers):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))


if __name__ == "__main__":
    main()
