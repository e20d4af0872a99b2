"""gc_graph: nothing of the history is garbage, so nothing collects it."""

import gc

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer


class Record:
    """A node of the experiment's history, linked with the one before it."""

    __slots__ = ("after", "before", "loss")

    def __init__(self, before, loss):
        self.before, self.after, self.loss = before, None, loss
        if before is not None:
            before.after = self


def main():
    torch.set_num_threads(1)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = data.batches(8, data.texts(8 * 110, 65))
    last = None
    for _ in range(50_000):
        last = Record(last, 0.0)
    gc.freeze()
    with planted.training(freeze=False):
        for (tokens,) in loader:
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            last = Record(last, loss.item())


main()
