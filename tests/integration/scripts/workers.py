"""Loader workers: --start fork | spawn | forkserver, --persistent."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        return x, x.sum(0, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", default="fork")
    parser.add_argument("--persistent", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(
        Noise(),
        batch_size=4,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=options.start,
        persistent_workers=options.persistent,
    )
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(repr(loss.item()))


if __name__ == "__main__":
    main()
