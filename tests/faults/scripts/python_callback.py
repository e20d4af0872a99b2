"""Train with a trainer class whose callback, in the package, sorts a history after every step."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.callbacks import HardSamples
from lab.models import Transformer


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def fit(self, loader):
        for step, (tokens,) in enumerate(loader):
            logits = self.model(tokens[:, :-1])
            losses = F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none").mean(dim=1)
            self.optimizer.zero_grad()
            losses.mean().backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.on_step_end(step, losses.tolist() * planted.amount(40))


if __name__ == "__main__":
    torch.set_num_threads(1)
    callbacks = [] if planted.off else [HardSamples(most=32)]
    trainer = Trainer(Transformer(), callbacks)
    with planted.training():
        trainer.fit(data.batches(8, data.texts(8 * 120, 65)))
