"""Train a text classifier with the settings of a model that is a hundred times as large."""

import functools
from dataclasses import dataclass

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer
from torch.utils.checkpoint import checkpoint


@dataclass
class Config:
    depth: int = 5
    width: int = 96
    length: int = 64
    gradient_checkpointing: int = 0  # so many of the blocks


class Encoder(Transformer):
    def __init__(self, config):
        super().__init__(
            width=config.width, depth=config.depth, length=config.length, classify=data.classes
        )
        self.config = config

    def run(self, number, x):
        block = self.blocks[number]
        if self.training and number < self.config.gradient_checkpointing:
            again = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
            return again(functools.partial(block.__call__), x)
        return block(x)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places
        for number in range(len(self.blocks)):
            x = self.run(number, x)
        return self.head(self.norm(x).mean(dim=1))


def main(config, steps=80, batch=12):
    texts = data.texts(batch * steps, config.length)
    labels = torch.randint(data.classes, (len(texts),))
    model = Encoder(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    with planted.training():
        for tokens, wanted in data.batches(batch, texts, labels):
            loss = F.cross_entropy(model(tokens), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Config(gradient_checkpointing=planted.amount(5)))
