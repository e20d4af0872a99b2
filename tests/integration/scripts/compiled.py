"""A compiled model; the number of graphs and of graph breaks is printed too."""

import torch
import torch._dynamo
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        return x + torch.relu(self.linear(x))


data = TensorDataset(torch.randn(80, 16), torch.randn(80, 1))
plain = nn.Sequential(Block(), Block(), nn.Linear(16, 1))
plain[1].register_forward_hook(lambda module, args, output: output * 1.0)
model = torch.compile(plain, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(2):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))
counters = torch._dynamo.utils.counters
print(dict(counters["frames"]), counters["stats"]["unique_graphs"])
print(sum(counters["graph_break"].values()), sum(counters["recompiles"].values()))
