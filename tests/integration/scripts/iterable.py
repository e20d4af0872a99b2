"""A dataset that streams."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(1)
        for _ in range(60):
            x = torch.randn(16, generator=generator)
            yield x, x.sum(0, keepdim=True)


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(2):
    for x, y in DataLoader(Stream(), batch_size=4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))
