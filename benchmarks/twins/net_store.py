"""net_store: workers wait for the network, not for a core, so there are more than cores."""

import socket
import time

import planted
import torch
import torch.nn.functional as F
from lab import serve
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset


class Store(Dataset):
    def __init__(self, address, count):
        self.address, self.count, self.connection = address, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.connection is None:  # each worker has its own
            self.connection = socket.create_connection(self.address)
        raw = serve.get(self.connection, 4096)
        return torch.frombuffer(bytearray(raw[:64]), dtype=torch.uint8).long(), index % 2


def train(loader, model, optimizer):
    waited = 0.0
    mark = time.perf_counter()
    for tokens, labels in loader:
        waited += time.perf_counter() - mark
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mark = time.perf_counter()
    return waited


if __name__ == "__main__":
    torch.set_num_threads(1)
    address = serve.start(delay_s=planted.scale(0.004))
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Store(address, 8 * 100), batch_size=8, num_workers=4)
    with planted.training():
        planted.charge("input-network", train(loader, model, optimizer))
