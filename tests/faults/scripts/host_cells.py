"""Train a recurrent net whose cell is written out gate by gate, one time step after the other."""

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
        self.names = "reset", "update", "new"
        self.from_input = nn.ModuleDict({name: nn.Linear(inputs, width) for name in self.names})
        self.from_state = nn.ModuleDict({name: nn.Linear(width, width) for name in self.names})

    def cell(self, x, state):
        reset = torch.sigmoid(self.from_input["reset"](x) + self.from_state["reset"](state))
        update = torch.sigmoid(self.from_input["update"](x) + self.from_state["update"](state))
        new = torch.tanh(self.from_input["new"](x) + reset * self.from_state["new"](state))
        return (1 - update) * new + update * state

    def forward(self, sequence):  # (batch, time, inputs) -> (batch, width)
        state = sequence.new_zeros(len(sequence), self.width)
        for x in sequence.unbind(dim=1):
            state = self.cell(x, state)
        return state


class Merged(Gates):
    """The same with one product for all gates of all times: what the host should start."""

    def forward(self, sequence):
        weights = torch.cat([self.from_input[name].weight for name in self.names])
        inputs = (sequence @ weights.T).mean(dim=1)
        return torch.tanh(inputs[:, : self.width])


class Classifier(nn.Module):
    def __init__(self, hand_written, width=32):
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.body = nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, width))
        self.recurrent = (Gates if hand_written else Merged)(width, width)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.recurrent(self.body(self.tokens(tokens))))


torch.set_num_threads(1)
length = max(8, planted.amount(40)) if not planted.off else 40
model = Classifier(not planted.off)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
texts = data.texts(8 * 150, length)
with planted.training():
    for (tokens,) in data.batches(8, texts):
        loss = F.cross_entropy(model(tokens), (tokens[:, -1] > 128).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
