"""
Train on features that the dataset writes to a cache on disk, safely, each time it made them.

Every write is synced, so it waits for the disk. How much is written follows the disk's speed.
"""

import os
import tempfile
import time
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset


class Cache:
    def __init__(self, folder):
        self.folder = folder
        self.file = os.open(folder / "features.cache", os.O_RDWR | os.O_CREAT)
        self.block, self.blocks = os.urandom(1 << 20), 0

    def tune(self, seconds):
        start = time.perf_counter()
        for _ in range(16):
            self.put(1)
        self.blocks = round(seconds * 16 / (time.perf_counter() - start))

    def put(self, blocks):
        with planted.cost("input-io"):
            for place in range(blocks):
                os.pwrite(self.file, self.block, place % 8 << 20)
                os.fdatasync(self.file)


class Features(Dataset):
    def __init__(self, cache, count):
        self.cache, self.texts = cache, torch.randint(256, (count, 64))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        if self.cache.blocks:
            self.cache.put(self.cache.blocks)
        return self.texts[index], index % 2


torch.set_num_threads(1)
with tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder:
    cache = Cache(Path(folder))
    cache.tune(planted.scale(0.0025))
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Features(cache, 8 * 120), batch_size=8, shuffle=True)
    with planted.training():
        for tokens, labels in loader:
            loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
