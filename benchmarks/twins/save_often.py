"""save_often: the state is copied, and written behind the training; each save is still made."""

import copy
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp


class Saver:
    """One write at a time: whoever saves waits for the last one, so copies do not pile up."""

    def __init__(self):
        self.writer, self.pending = ThreadPoolExecutor(1), None

    def save(self, path, step, model, optimizer):
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        self.wait()
        self.pending = self.writer.submit(self.write, path, copy.deepcopy(state))

    def write(self, path, state):
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)

    def wait(self):
        if self.pending is not None:
            self.pending.result()


torch.set_num_threads(1)
features, labels = data.vectors(256 * 200)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
often = planted.every(1)
saver = Saver()
with tempfile.TemporaryDirectory() as folder, planted.training():
    for step, (x, y) in enumerate(data.batches(256, features, labels), start=1):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % often == 0:
            saver.save(Path(folder) / "last.pt", step, model, optimizer)
    saver.wait()
