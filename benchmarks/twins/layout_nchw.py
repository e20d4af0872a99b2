"""layout_nchw: the model and what it is given are in channels_last."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from torch import nn

torch.set_num_threads(1)


def stage(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(3, 1, 1)
    )


stages = [stage(8 if number else 3, 8) for number in range(4)]
model = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
side = 16 + round(16 * planted.level)
images, labels = data.images(16 * 100, side)
model = model.to(memory_format=torch.channels_last)
images = images.to(memory_format=torch.channels_last)

with planted.training():
    for x, y in data.batches(16, images, labels):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
