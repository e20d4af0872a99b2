"""Train a perceptron and look at a small held-out set once an epoch."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp

torch.set_num_threads(1)
features, labels = data.vectors(256 * 100 + 512)
train = data.batches(256, features[512:], labels[512:])
held_out = data.batches(256, features[:512], labels[:512])


@torch.no_grad()
def accuracy(model):
    model.eval()
    correct = torch.zeros(())
    for x, y in held_out:
        with mixed():
            correct += (model(x).argmax(dim=1) == y).sum()
    model.train()
    return correct.item() / 512


model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with planted.training():
    for epoch in range(3):
        for x, y in train:
            with mixed():
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: accuracy {accuracy(model):.2f}")
