"""precision_numpy: what numpy gave is made float32 once, and the model stays what it was."""

import numpy as np
import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.data import batches
from lab.models import Mlp

torch.set_num_threads(1)
rng = np.random.default_rng(0)
table = rng.normal(size=(256 * 90, 256))
labels = torch.from_numpy(rng.integers(10, size=len(table)))


class Casting(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        for layer in self.model.layers:
            with mixed():
                x = F.relu(layer(x.to(layer.weight.dtype)))
        return self.model.head(x.float())


features = torch.from_numpy(table).float()
model = Casting(Mlp(depth=4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with planted.training():
    for x, y in batches(256, features, labels):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
