"""Every layer has an optimizer of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizers = [
    torch.optim.SGD(layer.parameters(), lr=1e-2 / (1 + depth))
    for depth, layer in enumerate(model)
    if list(layer.parameters())
]
for _ in range(2):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        print(repr(loss.item()))
