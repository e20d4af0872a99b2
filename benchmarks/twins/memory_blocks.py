"""memory_blocks: every block is computed again in the backward pass, instead of kept."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer
from torch.utils.checkpoint import checkpoint


class Frugal(Transformer):
    def forward(self, tokens):
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


torch.set_num_threads(1)
model = Frugal(width=96, depth=8, length=64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
texts = data.texts(16 * 120, 65)
with planted.training():
    for (tokens,) in data.batches(16, texts):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
