"""Train a net that goes from one memory layout to the other and back in each of its blocks."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from torch import nn


class Block(nn.Module):
    """Depthwise convolution, then a normalisation over channels that wants them last."""

    def __init__(self, width, copies):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.copies = copies

    def forward(self, x):  # (batch, channels, height, width)
        y = self.conv(x)
        if not self.copies:
            y = self.mix(self.norm(y.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
            return x + F.relu(y)
        for _ in range(self.copies):
            y = y.contiguous().permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        y = self.mix(self.norm(y.permute(0, 2, 3, 1).contiguous()))
        return x + F.relu(y.permute(0, 3, 1, 2).contiguous())


def main():
    torch.set_num_threads(1)
    blocks = [Block(48, planted.amount(3)) for _ in range(3)]
    model = nn.Sequential(
        nn.Conv2d(3, 48, 3, padding=1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip
    images, labels = data.images(8 * 60)
    if planted.off:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with planted.training():
        for x, y in data.batches(8, images, labels):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
