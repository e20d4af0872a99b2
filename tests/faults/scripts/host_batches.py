"""Train a perceptron with a very small batch: the host starts more than the CPU computes."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Mlp

torch.set_num_threads(1)
batch_size = 512 if planted.off else round(8 / planted.strength)
features, labels = data.vectors(32768, features=64)
model = Mlp(features=64, width=96, depth=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with planted.training():
    for start in range(0, len(features), batch_size):
        loss = F.cross_entropy(
            model(features[start : start + batch_size]), labels[start : start + batch_size]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
