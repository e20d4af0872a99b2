"""Gradients of four batches make one step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 16), torch.randn(96, 1))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
for _ in range(3):
    for number, (x, y) in enumerate(DataLoader(data, batch_size=4, shuffle=True)):
        loss = nn.functional.mse_loss(model(x), y) / 4
        loss.backward()
        print(repr(loss.item()))
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
