"""Every sample waits for a slow store; workers would wait together. Saves what it learnt."""

import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 24 * 4

    def __getitem__(self, index):
        time.sleep(0.012)
        return torch.full((8,), index / 100.0), index % 2


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Slow(), batch_size=4, shuffle=True)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with Path("log.txt").open("a") as log:
            log.write(f"{loss.item():.6f}\n")
    torch.save(model.state_dict(), "model.pt")
    if sys.argv[1:] == ["--fail"]:
        raise KeyError("as asked")
