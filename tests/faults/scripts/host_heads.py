"""Train a transformer whose attention goes over samples and heads in a Python loop."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Block, Transformer


class LoopedBlock(Block):
    """Attention for each sample and each head on its own, then put together again."""

    def forward(self, x):
        batch, _time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=2)
        size = width // self.heads
        samples = []
        for sample in range(batch):
            heads = []
            for head in range(self.heads):
                part = slice(head * size, (head + 1) * size)
                heads.append(
                    self.attend(q[sample, :, part], k[sample, :, part], v[sample, :, part])
                )
            samples.append(torch.cat(heads, dim=1))
        x = x + self.out(torch.stack(samples))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attend(self, q, k, v):
        hidden = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
        scores = (q @ k.T / q.shape[1] ** 0.5).masked_fill(hidden, -1e9)
        return scores.softmax(dim=1) @ v


def build(looped):
    model = Transformer(width=48, depth=4, length=16)
    for number in range(looped):
        model.blocks[number] = LoopedBlock(48)
    return model


torch.set_num_threads(1)
model = build(planted.amount(4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
with planted.training():
    for (tokens,) in data.batches(16, data.texts(16 * 200, 17)):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
