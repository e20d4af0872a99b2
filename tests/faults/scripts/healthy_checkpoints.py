"""Train a language model and save it twice: at half time and at the end."""

import tempfile
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer


def save(folder, step, model, optimizer):
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, folder / f"{step:06d}.pt")


def train(folder, steps=160):
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, (tokens,) in enumerate(data.batches(8, data.texts(8 * steps, 65)), start=1):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % (steps // 2) == 0:
            save(folder, step, model, optimizer)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, planted.training():
        train(Path(folder))
