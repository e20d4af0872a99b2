"""Train a recurrent net whose cell is written out gate by gate, one time step after the other,
for a few texts at a time."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from torch import nn


class Gates(nn.Module):
    """A GRU, by hand."""

    def __init__(self, inputs, width):
        super().__init__()
        self.width = width
        self.names = "forget", "refresh", "candidate"
        self.from_input = nn.ModuleDict({name: nn.Linear(inputs, width) for name in self.names})
        self.from_state = nn.ModuleDict({name: nn.Linear(width, width) for name in self.names})

    def cell(self, x, state):
        reset = torch.sigmoid(self.from_input["forget"](x) + self.from_state["forget"](state))
        update = torch.sigmoid(self.from_input["refresh"](x) + self.from_state["refresh"](state))
        new = torch.tanh(
            self.from_input["candidate"](x) + reset * self.from_state["candidate"](state)
        )
        return (1 - update) * new + update * state

    def forward(self, sequence):  # (batch, time, inputs) -> (batch, width)
        state = sequence.new_zeros(len(sequence), self.width)
        for x in sequence.unbind(dim=1):
            state = self.cell(x, state)
        return state


class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.body = nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, width))
        self.recurrent = Gates(width, width)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.recurrent(self.body(self.tokens(tokens))))


torch.set_num_threads(1)
batch_size = 512 if planted.off else round(8 / planted.strength)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
texts = data.texts(1024 * 5, 32)
with planted.training():
    for (tokens,) in data.batches(batch_size, texts):
        loss = F.cross_entropy(model(tokens), (tokens[:, -1] > 128).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
