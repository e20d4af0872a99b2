"""Train on an endless stream that makes whole batches at once."""

import itertools

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, IterableDataset


class Walks(IterableDataset):
    def __init__(self, batch_size, length):
        self.shape = (batch_size, length + 1)

    def __iter__(self):
        while True:
            yield torch.randint(-2, 3, self.shape).cumsum(dim=1).remainder(256)


def main():
    torch.set_num_threads(1)
    model = Transformer(depth=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    loader = DataLoader(Walks(8, 64), batch_size=None)
    with planted.training():
        for tokens in itertools.islice(loader, 130):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
