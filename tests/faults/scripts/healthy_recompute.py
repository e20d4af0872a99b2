"""Train a language model that recomputes only what is cheap to compute and large to keep."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Block, Transformer
from torch.utils.checkpoint import checkpoint


class Lean(Block):
    """The activation inside is not kept: it is the widest tensor of the block."""

    def forward(self, x):
        batch, time, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1).transpose(1, 3)
        q, k, v = qkv.unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(checkpoint(F.relu, self.up(self.norm2(x)), use_reentrant=False))


class LeanTransformer(Transformer):
    def __init__(self, depth=2, width=160):
        super().__init__(width=width, depth=depth)
        self.blocks = torch.nn.ModuleList(Lean(width) for _ in range(depth))


def main(steps=50, batch=12):
    model = LeanTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with planted.training():
        for (tokens,) in data.batches(batch, data.texts(batch * steps, 65)):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
