"""Train on arrays that a persistent worker unpacks with zlib: slow C code, not Python."""

import time
import zlib

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset

side = 32


class Shards(Dataset):
    """Scans with their raw frames; only the middle one is trained on."""

    def __init__(self, count, frames):
        self.count = count
        raw = (torch.randn(1 + frames, 3, side, side) * 20).to(torch.int8)
        self.shards = [zlib.compress(bytes(raw.roll(k).view(torch.uint8).flatten().tolist()), 6)
                       for k in range(4)]  # fmt: skip

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        raw = bytearray(zlib.decompress(self.shards[index % 4]))
        frame = torch.frombuffer(raw, dtype=torch.int8, count=3 * side * side)
        return frame.view(3, side, side).float() / 20, index % 10


class Meter:
    def __init__(self):
        self.total, self.mark = 0.0, time.perf_counter()

    def lap(self, counts):
        now = time.perf_counter()
        self.total += (now - self.mark) if counts else 0.0
        self.mark = now


def main():
    torch.set_num_threads(1)
    shards = Shards(8 * 50, planted.amount(260))
    loader = DataLoader(shards, 8, shuffle=True, num_workers=1, persistent_workers=True)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    with planted.training():
        waiting = Meter()
        for _ in range(2):
            for images, labels in loader:
                waiting.lap(counts=True)
                with mixed():
                    loss = F.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                waiting.lap(counts=False)
        planted.charge("input-cpu", waiting.total)


if __name__ == "__main__":
    main()
