"""Train on a stream of tokens from another machine: whole batches, but late."""

import socket

import planted
import torch
import torch.nn.functional as F
from lab import serve
from lab.models import Transformer
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, address, batches, batch_size=8, length=65):
        self.connection = socket.create_connection(address)
        self.batches, self.shape = batches, (batch_size, length)

    def __iter__(self):
        for _ in range(self.batches):
            yield self.receive()

    def receive(self):
        with planted.cost("input-network"):
            raw = serve.get(self.connection, self.shape[0] * self.shape[1])
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(self.shape).long()


def fit(model, stream):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for tokens in DataLoader(stream, batch_size=None):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.set_num_threads(1)
stream = Stream(serve.start(delay_s=planted.scale(0.025)), 100)
with planted.training():
    fit(Transformer(), stream)
