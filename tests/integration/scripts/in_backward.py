"""Each parameter is updated within the backward pass, as soon as its gradient is there."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizers = {weight: torch.optim.Adam([weight], lr=1e-2) for weight in model.parameters()}


def update(weight):
    optimizers[weight].step()
    optimizers[weight].zero_grad()


for weight in model.parameters():
    weight.register_post_accumulate_grad_hook(update)
for _ in range(2):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        print(repr(loss.item()))
