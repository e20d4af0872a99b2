"""The program ends in the middle of its ninth step: --how exception | exit | interrupt."""

import argparse
import os
import signal
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=["exception", "exit", "interrupt"], required=True)
how = parser.parse_args().how

torch.set_num_threads(1)
torch.manual_seed(0)


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 1)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 9:
            if how == "exit":
                sys.exit(3)
            if how == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("the data is bad")
        return self.linear(x)


data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
model = Fragile()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(2):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(repr(loss.item()), flush=True)
