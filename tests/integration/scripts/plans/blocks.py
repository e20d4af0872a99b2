"""Six blocks whose activations are nearly all of the memory; writes a file when it is through.

`blocks.py OUTPUT [own]`: own: the first two are checkpointed by the program itself.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
OWN = "own" in sys.argv


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(torch.tanh(torch.sin(self.inner(x)))) + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))

    def forward(self, x):
        for at, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if OWN and at < 2 else block(x)
        return x


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(140):
    optimizer.zero_grad()
    loss = model(torch.randn(1024, 64)).square().mean()
    loss.backward()
    optimizer.step()
Path(sys.argv[1]).write_text(loss.detach().numpy().tobytes().hex())
