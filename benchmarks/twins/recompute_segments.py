"""recompute_segments: there is memory for all activations, so nothing is computed twice."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from torch import nn


class Deep(nn.Module):
    def __init__(self, segments, width=512):
        super().__init__()
        self.segments = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
            for _ in range(segments)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for segment in self.segments:
            x = segment(x)
        return self.head(x)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for x, y in loader:
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    features, labels = data.vectors(256 * 110, features=512)
    with planted.training():
        train(Deep(4), data.batches(256, features, labels))
