"""logging_rows: one file, opened once; rows go to the disk together, every hundred steps."""

import csv
import os
import tempfile
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet

torch.set_num_threads(1)


class Table:
    def __init__(self, path, often=100):
        self.file, self.often = path.open("a", newline=""), often
        self.writer = csv.writer(self.file)

    def log(self, step, rows):
        self.writer.writerows([step, name, f"{value:.6f}"] for name, value in rows)
        if step % self.often == 0:
            self.sync()

    def sync(self):
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self):
        self.sync()
        self.file.close()


def figures(model):
    """Mean and norm of each parameter and of its gradient."""
    return [
        (f"{name}/{kind}/{figure.__name__}", figure(tensor).item())
        for name, parameter in model.named_parameters()
        for kind, tensor in (("weight", parameter.detach()), ("gradient", parameter.grad))
        for figure in (torch.mean, torch.norm)
    ]


model = ConvNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
images, labels = data.images(8 * 200)
with tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder, planted.training():
    table = Table(Path(folder) / "figures.csv")
    for step, (x, y) in enumerate(data.batches(8, images, labels)):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        table.log(step, figures(model))
    table.close()
