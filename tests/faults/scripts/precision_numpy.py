"""Train on what numpy gave: float64, so the model was made float64 to fit."""

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


def build():
    """The first layers, as many as the strength says, are in float64."""
    model = Mlp(depth=4)
    for layer in model.layers[: planted.amount(4)]:
        layer.double()
    return model


class Casting(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        for layer in self.model.layers:
            with mixed():
                x = F.relu(layer(x.to(layer.weight.dtype)))
        return self.model.head(x.float())


features = torch.from_numpy(table) if not planted.off else torch.from_numpy(table).float()
model = Casting(build())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with planted.training():
    for x, y in batches(256, features, labels):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
