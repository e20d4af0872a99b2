"""By how much checkpoints lower the peak of five kinds of models: by the ledger, and as the
profiler says. One line of JSON."""

import json

import torch
from torch import nn

from stepscope import CheckpointManager, CheckpointProfiler
from stepscope.checkpointing.meter import CpuMeter

torch.set_num_threads(1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(48, 48, batch_first=True)

    def forward(self, x):
        return torch.tanh(self.layer(x)[0])


class Nested(nn.Module):
    """A block of blocks; the manager checkpoints it and what is inside it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(wide(256), wide(256))

    def forward(self, x):
        return x + self.inner(x)


def wide(hidden):
    return nn.Sequential(nn.Linear(64, hidden), nn.GELU(), nn.Linear(hidden, 64))


def conv(given, made):
    return nn.Sequential(nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU())


def attention():
    return nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)


shared = wide(512)
MODELS = {
    "transformer": (nn.Sequential(*(attention() for _ in range(6))), (16, 64, 64), ("*",)),
    "cnn": (nn.Sequential(*(conv(a, 8) for a in (3, 8, 8, 8, 8, 8))), (8, 3, 48, 48), ("*",)),
    "lstm": (nn.Sequential(*(Lstm() for _ in range(4))), (16, 48, 48), ("*",)),
    "nested": (nn.Sequential(*(Nested() for _ in range(4))), (1024, 64), ("*", "*.inner.*")),
    "shared": (nn.Sequential(shared, nn.Tanh(), shared, nn.Tanh(), shared), (1024, 64), ("0",)),
}


def step(model, x):
    model(x).square().mean().backward()
    model.zero_grad()


def peaks(model, x, manager):
    meter = CpuMeter()
    found = []
    for is_on in (False, True):
        manager.switch(is_on)
        step(model, x)
        meter.mark()
        step(model, x)
        found.append(meter.mark().peak_bytes)
    meter.close()
    return found


told = {}
for name, (model, shape, patterns) in MODELS.items():
    torch.manual_seed(0)
    x = torch.randn(*shape)
    with CheckpointManager(model) as manager:
        manager.checkpoint(*patterns)
        without, with_it = peaks(model, x, manager)
        with CheckpointProfiler(manager, manager.engine) as profiler:
            profiler.start_profiling()
            for _ in range(3):
                step(model, x)
            said = profiler.get_summary().peak_reduction_bytes
    told[name] = {"without": without, "with": with_it, "said": said}
print(json.dumps(told))
