"""Train and append the figures of every step to a CSV file that is opened, synced and closed."""

import csv
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet

torch.set_num_threads(1)


def log(path, step, rows):
    with planted.cost("logging-io"):
        for name, value in rows:
            with path.open("a", newline="") as file:
                csv.writer(file).writerow([step, name, f"{value:.6f}"])
                file.flush()
                os.fsync(file.fileno())


def figures(model, loss, count):
    names = [name for name, _ in model.named_parameters()]
    return [(f"{names[number % len(names)]}/{number}", loss) for number in range(count)]


model = ConvNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
images, labels = data.images(8 * 100)
with tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder, ExitStack() as stack:
    path = Path(folder) / "metrics.csv"
    count = planted.times(lambda: log(path, 0, [("start", 0.0)]), 0.018)
    stack.enter_context(planted.training())
    for step, (x, y) in enumerate(data.batches(8, images, labels)):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if count:
            log(path, step, figures(model, loss.item(), count))
