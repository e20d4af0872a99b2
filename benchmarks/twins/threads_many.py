"""threads_many: a thread for each core."""

import os

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet

cores = len(os.sched_getaffinity(0))
torch.set_num_threads(cores)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for x, y in loader:
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


images, labels = data.images(8 * 25)
with planted.training():
    train(ConvNet(), data.batches(8, images, labels))
