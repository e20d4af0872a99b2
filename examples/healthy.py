"""
Train a small convolutional classifier on tensors that are already in memory.

Nothing is in the way here: almost all of the time goes to the forward and backward passes.

    stepscope run examples/healthy.py
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

side = 32  # pixels, both ways
classes = 10
torch.manual_seed(1337)


def make_data(count: int) -> TensorDataset:
    """Noise whose mean brightness says which class it is."""
    labels = torch.randint(classes, (count,))
    images = torch.randn(count, 3, side, side) + labels[:, None, None, None] / classes
    return TensorDataset(images, labels)


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:  # (batch, width, side, side), both ways
        return x + self.conv(F.relu(self.norm(x)))


width = 32
model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1),
    *(Block(width) for _ in range(3)),
    nn.AvgPool2d(side),
    nn.Flatten(),
    nn.Linear(width, classes),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loader = DataLoader(make_data(args.steps * args.batch_size), args.batch_size, shuffle=True)

for step, (images, labels) in enumerate(loader):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)
