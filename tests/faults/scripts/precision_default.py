"""Train a language model after a shared helper made float64 the default of the whole program."""

import planted
import torch
import torch.nn.functional as F
from lab import config, data
from lab.models import Transformer
from torch import nn


def main(steps=100):
    config.reproducible(double=not planted.off)
    model = Transformer(depth=max(1, round(3 * planted.level)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with planted.training():
        for (tokens,) in data.batches(8, data.texts(8 * steps, 65)):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()


if __name__ == "__main__":
    main()
