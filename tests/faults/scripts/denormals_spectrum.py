"""Train on recordings whose quiet bands are denormal when the model takes their logarithm."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp
from torch import nn


class LogPower(nn.Module):
    """Power in decibels, and its root: what the ear hears."""

    def forward(self, power):  # (batch, time, bands) -> (batch, bands)
        loud = 10 * torch.log10(power) + torch.sqrt(power)
        return loud.clamp(min=-80).mean(dim=1) / 80


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.loudness = LogPower()
        self.body = Mlp(features=256)

    def forward(self, power):
        return self.body(self.loudness(power))


def recordings(count, silent):
    """`silent` of 256 bands hold nothing but the rounding of the filter bank."""
    power = torch.rand(count, 32, 256) + 0.1
    power[:, :, :silent] *= 1e-40
    return power, torch.arange(count) % data.classes


torch.set_num_threads(1)
power, labels = recordings(1024, planted.amount(160))
model = Listener()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
with planted.training():
    for _ in range(16):
        for x, y in data.batches(128, power, labels):
            with mixed():
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
