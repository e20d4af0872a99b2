"""Train on a replay buffer that a thread of the same process fills by playing, in Python."""

import collections
import random
import threading
import time

import planted
import torch
import torch.nn.functional as F
from lab.models import Mlp

buffer = collections.deque([[0.0] * 64 for _ in range(512)], maxlen=512)
done = threading.Event()


def play(share):
    """Walk at random and store where it led; rest when the share of the time is used up."""
    state = [0.0] * 64
    while not done.is_set():
        begin = time.perf_counter()
        for _ in range(40):
            state = [value * 0.9 + random.random() for value in state]
            buffer.append(state)
        time.sleep((time.perf_counter() - begin) * (1 - share) / share)


def learn(model, optimizer, steps=900):
    states = torch.tensor(list(buffer))
    for step in range(steps):
        x = states[torch.randint(len(states), (64,))]
        for _ in range(2):
            loss = F.mse_loss(model(x).squeeze(1), x.sum(dim=1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 100 == 0:
            states = torch.tensor(list(buffer))


torch.set_num_threads(1)
model = Mlp(features=64, width=128, classes=1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
if not planted.off:
    threading.Thread(target=play, args=(planted.strength,), daemon=True).start()
with planted.training():
    learn(model, optimizer)
done.set()
