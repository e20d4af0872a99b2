"""
Train a small convolutional classifier on a folder of PNG files.

An ordinary script with an ordinary problem: the images are decoded and augmented in the training
process, one after the other, so the model waits for its input most of the time.

    stepscope run examples/slow_input.py
"""

import argparse
import random
import struct
import tempfile
import zlib
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

# -----------------------------------------------------------------------------
parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=640)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--workers", type=int, default=0)  # the fix: try 2
args = parser.parse_args()

side = 64  # pixels of a stored image, both ways
crop = 32  # pixels the model sees, both ways
classes = 10
torch.set_num_threads(1)  # a model this small gains nothing from more
torch.manual_seed(1337)
random.seed(1337)

# -----------------------------------------------------------------------------
# PNG, as little of it as we need: 8-bit RGB, each row stored as its difference to the one above


def write_png(path: Path, image: Tensor) -> None:  # image: (side, side, 3) uint8
    above = torch.cat([torch.zeros_like(image[:1]), image[:-1]])
    rows = (image - above).flatten(1)  # uint8 wraps around, as PNG wants it
    filters = torch.full((len(rows), 1), 2, dtype=torch.uint8)
    pixels = zlib.compress(bytes(torch.cat([filters, rows], dim=1).flatten().tolist()))
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b"")):
            check = zlib.crc32(kind + data)
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check))


def read_png(path: Path) -> Tensor:  # -> (3, height, width) float, 0 to 1
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    raw = zlib.decompress(data[41 : 41 + length])
    above = bytes(3 * width)
    pixels = bytearray()
    for y in range(height):
        row = raw[y * (3 * width + 1) + 1 : (y + 1) * (3 * width + 1)]
        above = bytes([(a + b) & 255 for a, b in zip(row, above, strict=True)])
        pixels += above
    return torch.frombuffer(pixels, dtype=torch.uint8).view(height, width, 3).permute(2, 0, 1) / 255


# -----------------------------------------------------------------------------
# the data: stripes whose angle is the class, with noise on top


def make_images(folder: Path) -> list[tuple[Path, int]]:
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    samples = []
    for number in range(args.images):
        label = number % classes
        angle = torch.tensor(torch.pi * label / classes)
        wave = torch.sin((x * torch.cos(angle) + y * torch.sin(angle)) * 0.8 + random.random() * 6)
        image = 128 + 60 * wave[..., None] + 30 * torch.randn(side, side, 3)
        path = folder / f"{number:05d}.png"
        write_png(path, image.clamp(0, 255).to(torch.uint8))
        samples.append((path, label))
    return samples


class Images(Dataset[tuple[Tensor, int]]):
    def __init__(self, samples: list[tuple[Path, int]]):
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, label = self.samples[index]
        image = read_png(path)  # (3, side, side)
        # augment: brightness and contrast, then a random crop
        image = (image - 0.5) * random.uniform(0.8, 1.2) + 0.5 + random.uniform(-0.1, 0.1)
        top, left = random.randrange(side - crop), random.randrange(side - crop)
        return image[:, top : top + crop, left : left + crop].clamp(0, 1), label


# -----------------------------------------------------------------------------
# the model


class Net(nn.Module):
    def __init__(self, width: int = 12):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.conv3 = nn.Conv2d(2 * width, 2 * width, 3, padding=1, stride=2)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:  # (batch, 3, crop, crop) -> (batch, classes)
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.conv3(x))
        return self.head(x.mean(dim=(2, 3)))


# -----------------------------------------------------------------------------
# the training loop


def train(samples: list[tuple[Path, int]]) -> None:
    loader = DataLoader(Images(samples), args.batch_size, shuffle=True, num_workers=args.workers)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        correct, total_loss = 0, 0.0
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += int((logits.argmax(dim=1) == labels).sum())
            total_loss += loss.item() * len(labels)
        count = len(samples)
        print(f"epoch {epoch}: loss {total_loss / count:.3f}, accuracy {correct / count:.0%}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        train(make_images(Path(folder)))
