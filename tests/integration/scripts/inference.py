"""No training at all: predictions over a loader, or without one (--no-loader)."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--no-loader", action="store_true")
options = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).eval()
rows = torch.randn(96, 16)
batches = list(rows.split(4))
if not options.no_loader:
    batches = (batch for (batch,) in DataLoader(TensorDataset(rows), batch_size=4))
with torch.inference_mode():
    for batch in batches:
        print(repr(model(batch).sum().item()))
