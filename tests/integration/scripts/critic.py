"""The critic learns from every batch, the generator from every third."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(120, 8))
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 8))
critic = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
for_generator = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
for_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for _ in range(2):
    for number, (real,) in enumerate(DataLoader(data, batch_size=8)):
        with torch.no_grad():
            fake = generator(torch.randn(len(real), 4))
        for_critic.zero_grad()
        loss = critic(fake).mean() - critic(real).mean()
        loss.backward()
        for_critic.step()
        if number % 3 == 2:
            for_generator.zero_grad()
            loss = -critic(generator(torch.randn(len(real), 4))).mean()
            loss.backward()
            for_generator.step()
        print(repr(loss.item()))
