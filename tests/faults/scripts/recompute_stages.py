"""Train a residual network whose stages are checkpointed the old, reentrant way."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from torch import nn
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.second(F.relu(self.first(self.norm(x))))


class Stages(nn.Module):
    def __init__(self, depth, frugal, width=24):
        super().__init__()
        self.frugal = frugal
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.stages = nn.ModuleList(Residual(width) for _ in range(depth))
        self.head = nn.Linear(width, data.classes)
        self.to(memory_format=torch.channels_last)

    def features(self, x):
        x = self.stem(x)
        for number, stage in enumerate(self.stages):
            if number < self.frugal:
                x = checkpoint(lambda given, stage=stage: stage(given), x, use_reentrant=True)
            else:
                x = stage(x)
        return x

    def forward(self, images):
        x = self.features(images.contiguous(memory_format=torch.channels_last))
        return self.head(x.mean(dim=(2, 3)))


torch.set_num_threads(1)
model = Stages(3, planted.amount(3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
with planted.training():
    for images, labels in data.batches(12, *data.images(12 * 90)):
        with mixed():
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
