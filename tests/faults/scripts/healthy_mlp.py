"""Train a perceptron on a table that is in memory. Nothing is in the way."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp

torch.manual_seed(0)
torch.set_num_threads(1)
features, labels = data.vectors(256 * 250)
loader = data.batches(256, features, labels)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

with planted.training():
    for step, (x, y) in enumerate(loader):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
