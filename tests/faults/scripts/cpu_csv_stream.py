"""Train on rows of a CSV text that are parsed again in every epoch."""

import csv
import io

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import Mlp
from torch.utils.data import DataLoader, IterableDataset

columns = 256


def export(rows):
    """What the database gave us: one row a line."""
    file = io.StringIO()
    writer = csv.writer(file)
    for row in torch.randn(rows, columns).tolist():
        writer.writerow([f"{value:.4f}" for value in row])
    return file.getvalue()


class Rows(IterableDataset):
    def __init__(self, text, repeats):
        self.text, self.repeats = text, repeats

    def __iter__(self):
        lines = self.text.splitlines()
        for number in range(256 * 120):
            yield self.parse(lines, number) if number % 256 < self.repeats else self.blank, 1

    blank = torch.zeros(columns)

    def parse(self, lines, number):
        with planted.cost("input-cpu"):
            (row,) = csv.reader([lines[number % len(lines)]])
            return torch.tensor([float(value) for value in row])


def stack(samples):
    return torch.stack([row for row, _ in samples]), torch.ones(len(samples), dtype=torch.long)


torch.set_num_threads(1)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Rows(export(512), planted.amount(256)), batch_size=256, collate_fn=stack)
with planted.training():
    for x, y in loader:
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
