"""
Train on records that are read past the page cache, as databases do, in the training process.

O_DIRECT makes every read go to the disk. How many reads a sample takes is found at the start from
the speed of the disk, so that the share is alike on slow and on quick ones.
"""

import mmap
import os
import tempfile
import time
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset

record = 1 << 20  # bytes
records = 48


def write(path):
    with path.open("wb") as file:
        for _ in range(records):
            file.write(os.urandom(record))
        file.flush()
        os.fsync(file.fileno())


class Records(Dataset):
    def __init__(self, path, count):
        self.file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.buffer = mmap.mmap(-1, record)  # aligned to pages, as O_DIRECT wants it
        self.count, self.reads = count, 0

    def tune(self, seconds):
        """So many reads that a sample takes about `seconds`."""
        start = time.perf_counter()
        for place in range(32):
            os.preadv(self.file, [self.buffer], place % records * record)
        self.reads = round(seconds * 32 / (time.perf_counter() - start))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.load(index)
        return torch.frombuffer(self.buffer, dtype=torch.uint8, count=65).long(), index % 2

    def load(self, index):
        with planted.cost("input-io"):
            for read in range(self.reads):
                os.preadv(self.file, [self.buffer], (index * 7 + read) % records * record)


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = Transformer(classify=2, length=65)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder:
        write(Path(folder) / "records.bin")
        dataset = Records(Path(folder) / "records.bin", 8 * 120)
        dataset.tune(planted.scale(0.0030))
        with planted.training():
            for tokens, labels in DataLoader(dataset, batch_size=8, shuffle=True):
                loss = F.cross_entropy(model(tokens), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
