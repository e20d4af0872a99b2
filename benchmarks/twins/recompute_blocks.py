"""recompute_blocks: there is memory for all activations, so nothing is computed twice."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer

torch.set_num_threads(1)
model = Transformer(depth=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
with planted.training():
    for (tokens,) in data.batches(8, data.texts(8 * 100, 65)):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
