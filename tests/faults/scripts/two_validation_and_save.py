"""Train, and evaluate and save far too often."""

import tempfile
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp


class Experiment:
    def __init__(self, folder):
        self.folder = folder
        self.model = Mlp()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.train = data.batches(256, *data.vectors(256 * 160))
        self.held_out = data.batches(256, *data.vectors(256 * 24))

    def validate(self):
        with planted.cost("validation"), torch.no_grad():
            self.model.eval()
            losses = []
            for x, y in self.held_out:
                with mixed():
                    losses.append(F.cross_entropy(self.model(x), y))
            self.model.train()
            return torch.stack(losses).mean().item()

    def save(self, step):
        with planted.cost("checkpoint-save"):
            for name in ("last", f"step-{step % 3}"):
                torch.save(self.model.state_dict(), self.folder / f"{name}.pt")
                torch.save(self.optimizer.state_dict(), self.folder / f"{name}.optimizer.pt")

    def run(self):
        often = planted.every(6)
        for step, (x, y) in enumerate(self.train, start=1):
            with mixed():
                loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % often == 0:
                self.validate()
                for _ in range(4):
                    self.save(step)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(Path(folder))
        with planted.training():
            experiment.run()
