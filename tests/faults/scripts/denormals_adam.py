"""
Train with Adam where most features are so small that their squared gradients are denormal.

Numbers below 1.2e-38 take CPUs many times longer; here the square root of Adam meets them.
"""

import planted
import torch
import torch.nn.functional as F
from lab import data
from torch import nn

torch.set_num_threads(1)
tiny = planted.amount(3000)  # features in the wrong unit, out of 3072


class Sensor(nn.Module):
    def __init__(self, features=3072, width=256, classes=10):
        super().__init__()
        self.mix = nn.Linear(features, width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(F.relu(self.hidden(F.relu(self.mix(x)))))


features, labels = data.vectors(32 * 150, features=3072)
features[:, :tiny] *= 3e-18  # volts where the others are picovolts
model = Sensor()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-30, foreach=False)
with planted.training():
    for x, y in data.batches(32, features, labels):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
