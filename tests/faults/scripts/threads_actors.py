"""Train a policy while actors play in processes of their own: several for each core."""

import multiprocessing
import os
import random

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer

cores = len(os.sched_getaffinity(0))


def play(done):
    """Episode after episode, until the learner has learned enough."""
    while not done.is_set():
        state = [0.0] * 32
        for _ in range(500):
            state = [value * 0.9 + random.random() for value in state]


def start_actors(count):
    context = multiprocessing.get_context("fork")
    done = context.Event()
    for _ in range(count):
        context.Process(target=play, args=(done,), daemon=True).start()
    return done


def learn(steps=110):
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for (tokens,) in data.batches(8, data.texts(8 * steps, 65)):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    done = start_actors(cores - 1 + planted.amount(2 * cores))
    with planted.training():
        learn()
    done.set()
