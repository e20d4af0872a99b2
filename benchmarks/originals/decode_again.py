"""Train for several epochs on pictures that are unpacked and made smaller each time."""

import zlib

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset

large, small = 512, 32  # pixels, before and after


def enlarge(image):
    grown = F.interpolate(image[None], size=large, mode="bilinear")
    return ((grown + 4) * 28).clamp(0, 255).to(torch.uint8)


class Pictures(Dataset):
    """Compressed without loss, in memory: what comes out for an index is always the same."""

    def __init__(self, count):
        images, self.labels = data.images(count, small)
        self.packed = [zlib.compress(enlarge(image).numpy().tobytes(), 1) for image in images]

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        raw = bytearray(zlib.decompress(self.packed[index]))
        picture = torch.frombuffer(raw, dtype=torch.uint8).view(3, large, large).float() / 28 - 4
        return F.adaptive_avg_pool2d(picture, small), self.labels[index]


def train(loader, epochs=10):
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(epochs):
        for images, labels in loader:
            with mixed():
                loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    pictures = Pictures(8 * 15)
    with planted.training():
        train(DataLoader(pictures, batch_size=8, shuffle=True))
