"""Train while a growing graph of linked records keeps the garbage collector at work."""

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


class History:
    def __init__(self, size):
        self.last = None
        for _ in range(size):
            self.last = Record(self.last, 0.0)

    def add(self, losses):
        for loss in losses:
            self.last = Record(self.last, loss)


def main():
    torch.set_num_threads(1)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = data.batches(8, data.texts(8 * 100, 65))
    with planted.training():
        gc.disable()
        history = History(planted.amount(200_000))
        gc.enable()
        gc.set_threshold(*((100, 1, 1) if not planted.off else (700, 10, 10)))  # keep memory low
        for (tokens,) in loader:
            logits = model(tokens[:, :-1])
            losses = F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            history.add(losses.flatten().tolist())


main()
