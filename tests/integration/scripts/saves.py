"""A checkpoint after every fifth step."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
model = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
with tempfile.TemporaryDirectory() as folder:
    for _ in range(2):
        for number, (x, y) in enumerate(DataLoader(data, batch_size=8, shuffle=True)):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(repr(loss.item()))
            if number % 5 == 4:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, Path(folder, "checkpoint.pt"))
