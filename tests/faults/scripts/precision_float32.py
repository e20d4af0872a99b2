"""Train a wide perceptron in float32 on a CPU that multiplies in bfloat16."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import has_bfloat16
from lab.models import Mlp

torch.set_num_threads(1)
features, labels = data.vectors(512 * 60)
model = Mlp(width=512 + round(256 * planted.level), depth=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
use_bfloat16 = has_bfloat16() and planted.off

with planted.training():
    for x, y in data.batches(512, features, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=use_bfloat16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
