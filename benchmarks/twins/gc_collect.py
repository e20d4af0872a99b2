"""gc_collect: the leak is gone, and so is the call; the table is never looked at again."""

import gc

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp

torch.set_num_threads(1)
features, labels = data.vectors(256 * 200)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
index = [{"id": number, "name": [number]} for number in range(100_000)]
gc.freeze()
with planted.training(freeze=False):
    for x, y in data.batches(256, features, labels):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
