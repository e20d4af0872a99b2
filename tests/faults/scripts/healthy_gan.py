"""Train a small GAN: two models, two optimizers, one step each in turn."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp

torch.set_num_threads(1)
generator = Mlp(features=64, classes=256)
critic = Mlp(features=256, classes=1)
generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)


def critic_step(real):
    fake = generator(torch.randn(len(real), 64)).detach()
    loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
    critic_optimizer.zero_grad()
    loss.backward()
    critic_optimizer.step()


def generator_step(count):
    loss = F.softplus(-critic(generator(torch.randn(count, 64)))).mean()
    generator_optimizer.zero_grad()
    loss.backward()
    generator_optimizer.step()


real_data, _ = data.vectors(256 * 100)
with planted.training():
    for (real,) in data.batches(256, real_data):
        with mixed():
            critic_step(real)
            generator_step(len(real))
