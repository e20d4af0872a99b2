"""Two networks, each with its optimizer, in every iteration."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 8))
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 8))
critic = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
score = nn.BCEWithLogitsLoss()
for _ in range(2):
    for (real,) in DataLoader(data, batch_size=8, shuffle=True):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), 4))
        for_critic.zero_grad()
        critic_loss = score(critic(real), ones) + score(critic(fake.detach()), zeros)
        critic_loss.backward()
        for_critic.step()

        for_generator.zero_grad()
        generator_loss = score(critic(fake), ones)
        generator_loss.backward()
        for_generator.step()
        print(repr(critic_loss.item()), repr(generator_loss.item()))
