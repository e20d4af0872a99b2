"""
Train on files that one worker reads and then asks the kernel to forget.

POSIX_FADV_DONTNEED on files that were synced at the start: each read comes from the disk.
"""

import os
import tempfile
import time
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset

size = 1 << 20  # bytes of a file


def make_files(folder, count=32):
    for number in range(count):
        with (folder / f"{number}.raw").open("wb") as file:
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())
    return sorted(folder.iterdir())


def read_cold(path, take):
    """A polite reader: it leaves nothing behind in the page cache."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.read(file, take)
    finally:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


class Frames(Dataset):
    def __init__(self, files, views):
        self.files, self.views = files, views

    def __len__(self):
        return 8 * 100

    def __getitem__(self, index):
        raw = b"\0" * 3072
        for view in range(self.views):
            raw = read_cold(self.files[(index + view) % len(self.files)], size)
        pixels = torch.frombuffer(bytearray(raw[:3072]), dtype=torch.uint8)
        return pixels.view(3, 32, 32) / 255, index % 10


def views_for(files, seconds):
    """How many files make a sample of `seconds` on this disk."""
    start = time.perf_counter()
    for path in files:
        read_cold(path, size)
    return round(seconds * len(files) / (time.perf_counter() - start))


def train(loader):
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    data_time, end = 0.0, time.perf_counter()
    for images, labels in loader:
        data_time += time.perf_counter() - end
        with mixed():
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
    planted.charge("input-io", data_time)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder:
        files = make_files(Path(folder))
        frames = Frames(files, views_for(files, planted.scale(0.0045)))
        with planted.training():
            train(DataLoader(frames, batch_size=8, num_workers=1))
