"""An optimizer that runs the model itself, through a closure."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
x, y = torch.randn(64, 16), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for _ in range(12):
    print(repr(optimizer.step(closure).item()))
