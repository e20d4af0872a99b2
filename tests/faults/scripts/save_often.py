"""Train and save model and optimizer every few steps."""

import tempfile
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp


def save_checkpoint(path, step, model, optimizer):
    with planted.cost("checkpoint-save"):
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)


torch.set_num_threads(1)
features, labels = data.vectors(256 * 200)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
often = planted.every(1)
with tempfile.TemporaryDirectory() as folder, planted.training():
    for step, (x, y) in enumerate(data.batches(256, features, labels), start=1):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % often == 0:
            save_checkpoint(Path(folder) / "last.pt", step, model, optimizer)
