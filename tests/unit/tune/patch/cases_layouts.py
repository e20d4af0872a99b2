"""Models that are made and handed on in many ways."""

from __future__ import annotations

from typing import Any

from tests.unit.tune.patch.programs import Case

__all__ = ["LAYOUTS"]

LAYOUT: dict[str, Any] = {"change": "layout", "site": "forward", "settings": {}}
IN_LAYOUT = {"model": "channels_last", "input_0": "float32, channels_last"}

LAYOUTS = [
    Case(
        "a name in a loop",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
model.to("cpu")
x = torch.zeros(2)
for _ in range(2):
    out = model(x)
""",
        wants=IN_LAYOUT,
        contains="""\
model.to("cpu")
model = model.to(memory_format=torch.channels_last)
x = torch.zeros(2)
for _ in range(2):
    out = model(x.to(memory_format=torch.channels_last))
""",
        note="call .contiguous() before .view()",
        **LAYOUT,
    ),
    Case(
        "torch is not imported",
        '''\
#!/usr/bin/env python
"""Training."""
from __future__ import annotations

from torch import nn, zeros
model = nn.Conv2d(3, 4)
out = model(zeros(1))
''',
        wants=IN_LAYOUT,
        contains='''\
"""Training."""
from __future__ import annotations
import torch

from torch import nn, zeros
model = nn.Conv2d(3, 4)
model = model.to(memory_format=torch.channels_last)
out = model(zeros(1).to(memory_format=torch.channels_last))
''',
        **LAYOUT,
    ),
    Case(
        "torch under another name, not at the top",
        """\
def main():
    import torch as th
    net = th.nn.Conv2d(3, 4)
    return net(th.zeros(1) + 1)
main()
""",
        wants=IN_LAYOUT,
        contains="""\
    net = net.to(memory_format=th.channels_last)
    return net((th.zeros(1) + 1).to(memory_format=th.channels_last))
""",
        **LAYOUT,
    ),
    Case(
        "handed to a function with a loss",
        """\
import torch
def train(model, data, criterion):
    for x in data:
        loss = criterion(
            model(x),
            0,
        )
def main():
    net = torch.nn.Conv2d(3, 4).cuda()
    train(net, [torch.zeros(1)], torch.nn.CrossEntropyLoss())
main()
""",
        wants=IN_LAYOUT,
        contains="""\
    net = torch.nn.Conv2d(3, 4).cuda()
    net = net.to(memory_format=torch.channels_last)
""",
        **LAYOUT,
    ),
    Case(
        "torch where the model is called only",
        """\
from torch.nn import Conv2d
model = Conv2d(3, 4)
def main():
    import torch
    return model(torch.zeros(1))
main()
""",
        wants=IN_LAYOUT,
        contains="import torch\nfrom torch.nn import Conv2d\nmodel = Conv2d(3, 4)\nmodel = model.t",
        **LAYOUT,
    ),
    Case(
        "an attribute",
        """\
import torch
class Trainer:
    def __init__(self):
        self.model = torch.nn.Conv2d(3, 4)
        self.loss = torch.nn.CrossEntropyLoss()
    def step(self, batch):
        return self.loss(self.model(batch), 1)
Trainer().step(torch.zeros(1))
""",
        wants=IN_LAYOUT,
        contains="        self.model = self.model.to(memory_format=torch.channels_last)\n",
        **LAYOUT,
    ),
    Case(
        "either of two",
        """\
import torch
if len("a") == 1:
    model = torch.nn.Conv2d(3, 4)
else:
    model = torch.nn.Conv2d(5, 6)
out = model(torch.zeros(1))
""",
        wants=IN_LAYOUT,
        contains="""\
    model = torch.nn.Conv2d(5, 6)
model = model.to(memory_format=torch.channels_last)
""",
        **LAYOUT,
    ),
    Case(
        "a batch that is a dictionary",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
for batch in [{"x": 1}]:
    print(batch["x"])
    out = model(batch)
""",
        wants={"model": "channels_last"},
        **LAYOUT,
    ),
    Case(
        "an input on its way to a device",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
out = model(torch.zeros(1).float())
""",
        wants=IN_LAYOUT,
        **LAYOUT,
    ),
    Case(
        "several inputs",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
out = model(torch.zeros(1), torch.zeros(1))
""",
        refused="which argument of the call at train.py:3 is images is not known",
        **LAYOUT,
    ),
    Case(
        "a model in a model",
        """\
import torch
first, second = torch.nn.Conv2d(3, 4), torch.nn.Conv2d(3, 4)
out = second(first(torch.zeros(1)))
""",
        refused="calls several things by their names",
        **LAYOUT,
    ),
    Case(
        "a model out of a list",
        """\
import torch
models = [torch.nn.Conv2d(3, 4)]
out = models[0](torch.zeros(1))
""",
        refused="no call of a model by a name",
        **LAYOUT,
    ),
    Case(
        "two models handed to a function",
        """\
import torch
def run(model):
    return model(torch.zeros(1))
a = torch.nn.Conv2d(3, 4)
b = torch.nn.Conv2d(3, 4)
run(a)
run(b)
""",
        refused="run is called with more than one model",
        **LAYOUT,
    ),
    Case(
        "a model that is assigned again where it is called",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
for _ in range(2):
    out = model(torch.zeros(1))
    model = torch.nn.Conv2d(3, 4)
""",
        refused="model is assigned again where it is called",
        **LAYOUT,
    ),
]
