"""Train with a worker that is spawned for every epoch: a new Python imports torch each time."""

import time

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, TensorDataset


def loaders(epochs, steps):
    """One loader for each epoch, so that the order of the samples can be set by hand."""
    images = TensorDataset(*data.images(8 * steps))
    for epoch in range(epochs):
        generator = torch.Generator().manual_seed(epoch)
        workers = {} if planted.off else {"num_workers": 1, "multiprocessing_context": "spawn"}
        yield DataLoader(images, 8, shuffle=True, generator=generator, **workers)


def main():
    torch.set_num_threads(1)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    starting = 0.0
    with planted.training():
        steps = round(60 / planted.level)
        for loader in loaders(2, steps):
            begin = time.perf_counter()
            batches = iter(loader)
            batch = next(batches)
            starting += time.perf_counter() - begin
            while batch is not None:
                images, labels = batch
                with mixed():
                    loss = F.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                batch = next(batches, None)
        planted.charge("input-worker-startup", starting)


if __name__ == "__main__":
    main()
