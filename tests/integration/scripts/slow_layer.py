"""A model one of whose layers sleeps: 20 ms forward in `body.1`, for as many steps as asked."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Sleeps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        time.sleep(0.02)
        return self.linear(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), Sleeps(), nn.ReLU())
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.body(x))


steps = int(sys.argv[1])
data = TensorDataset(torch.randn(8 * steps, 16), torch.randn(8 * steps, 1))
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for x, y in DataLoader(data, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
