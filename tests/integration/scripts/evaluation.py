"""Evaluation between steps, in the three usual forms: --form loader | tensor | ema."""

import argparse
import copy
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--form", choices=["loader", "tensor", "ema"], default="loader")
form = parser.parse_args().form

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
held_out = TensorDataset(torch.randn(40, 16), torch.randn(40, 1))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
averaged = copy.deepcopy(model) if form == "ema" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


@torch.no_grad()
def evaluate():
    model.eval()
    total = 0.0
    batches = [held_out[:]] if form == "tensor" else DataLoader(held_out, batch_size=8)
    for x, y in batches:
        time.sleep(0.02)  # metrics
        total += nn.functional.mse_loss(averaged(x), y).item()
    model.train()
    return total


@torch.no_grad()
def average():
    for theirs, ours in zip(averaged.parameters(), model.parameters(), strict=True):
        theirs.lerp_(ours, 0.1)


for _ in range(3):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if form == "ema":
            average()
        print(repr(loss.item()))
    print("held out", repr(evaluate()))
