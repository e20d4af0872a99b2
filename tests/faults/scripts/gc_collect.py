"""Train with a gc.collect() against a leak that is long gone, and a large table in memory."""

import gc

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp


def free_memory():
    with planted.cost("gc"):
        gc.collect()


torch.set_num_threads(1)
features, labels = data.vectors(256 * 200)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
often = planted.every(16)
index = [{"id": number, "name": [number]} for number in range(100_000)]
with planted.training(freeze=False):
    for step, (x, y) in enumerate(data.batches(256, features, labels)):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % often == 0:
            free_memory()
