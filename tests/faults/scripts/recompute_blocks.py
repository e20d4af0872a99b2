"""Train a language model that would fit in memory many times, with every block checkpointed."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer
from torch.utils.checkpoint import checkpoint


class Frugal(Transformer):
    def __init__(self, recomputed, **more):
        super().__init__(**more)
        self.recomputed = recomputed

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if number < self.recomputed else block(x)
        return self.head(self.norm(x))


torch.set_num_threads(1)
model = Frugal(planted.amount(4), depth=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
with planted.training():
    for (tokens,) in data.batches(8, data.texts(8 * 100, 65)):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
