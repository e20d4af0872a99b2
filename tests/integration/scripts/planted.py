"""A loop with a sleep planted at a known place."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PLACES = (
    "nowhere",
    "dataset",
    "before-forward",
    "forward",
    "backward-hook",
    "optimizer",
    "after-step",
    "between-epochs",
)
parser = argparse.ArgumentParser()
parser.add_argument("--where", choices=PLACES, default="nowhere")
parser.add_argument("--ms", type=float, default=30.0)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=8)
options = parser.parse_args()


def planted(place):
    if place == options.where:
        time.sleep(options.ms / 1000)


class Noise(Dataset):
    def __len__(self):
        return options.samples

    def __getitem__(self, index):
        planted("dataset")
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        return x, x.sum(0, keepdim=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        planted("forward")
        return self.layers(x)


def slow_gradient(gradient):
    planted("backward-hook")


torch.set_num_threads(1)
torch.manual_seed(0)
model = Net()
model.layers[0].weight.register_hook(slow_gradient)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
optimizer.register_step_pre_hook(lambda *_: planted("optimizer"))
loader = DataLoader(Noise(), batch_size=1, shuffle=True)
for _ in range(options.epochs):
    for x, y in loader:
        planted("before-forward")
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        planted("after-step")
        print(repr(loss.item()))
    planted("between-epochs")
