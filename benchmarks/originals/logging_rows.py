"""Train and append figures of all weights to a table, each row opened, synced and closed."""

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


def log(path, step, rows):
    for name, value in rows:
        with path.open("a", newline="") as file:
            csv.writer(file).writerow([step, name, f"{value:.6f}"])
            file.flush()
            os.fsync(file.fileno())


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
    for step, (x, y) in enumerate(data.batches(8, images, labels)):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log(Path(folder) / "figures.csv", step, figures(model))
