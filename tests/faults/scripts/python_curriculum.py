"""Train with a curriculum whose weights are smoothed over neighbours in a nested function."""

import math

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet


def main(steps=100, batch_size=8):
    torch.set_num_threads(1)
    weights = [1.0] * planted.amount(9000)

    def smooth(loss):
        with planted.cost("python-in-loop"):
            for place in range(len(weights)):
                near = weights[max(0, place - 20) : place + 20]
                weights[place] = 0.9 * sum(near) / len(near) + 0.1 * math.exp(-loss)

    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    images, labels = data.images(batch_size * steps)
    with planted.training():
        for x, y in data.batches(batch_size, images, labels):
            with mixed():
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if weights:
                smooth(loss.item())


main()
