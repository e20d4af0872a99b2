"""Models that are made and called in many ways."""

from __future__ import annotations

from typing import Any

from tests.unit.tune.patch.programs import Case

__all__ = ["AUTOCASTS", "COMPILES", "LAYOUTS"]

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

AUTOCAST: dict[str, Any] = {
    "change": "autocast",
    "site": "forward",
    "settings": {"dtype": "bfloat16"},
}
CAST = {"autocast": "cpu bfloat16"}

AUTOCASTS = [
    Case(
        "an assignment",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
for x in [torch.zeros(1)]:
    # forward
    out = model(
        x
    )  # there it is
    out.backward()
""",
        wants=CAST,
        contains="""\
    # forward
    with torch.autocast(device_type=next(model.parameters()).device.type, dtype=torch.bfloat16):
        out = model(
            x
        )  # there it is
    out.backward()
""",
        note="what the model gives is bfloat16 now",
        **AUTOCAST,
    ),
    Case(
        "a return in a method, with tabs",
        "import torch\nclass T:\n\tdef __init__(self):\n\t\tself.net = torch.nn.Conv2d(3, 4)\n"
        "\tdef step(self, x):\n\t\treturn self.net(x)\nT().step(torch.zeros(1))\n",
        wants=CAST,
        contains="dtype=torch.bfloat16):\n\t\t\treturn self.net(x)\n",
        **AUTOCAST,
    ),
    Case(
        "a call that goes on to backward",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
model(torch.zeros(1)).backward()
""",
        refused="train.py:3 does more than call the model",
        **AUTOCAST,
    ),
    Case(
        "a condition",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
if (out := model(torch.zeros(1))):
    pass
""",
        refused="the model's call at train.py:3 is no statement of its own",
        **AUTOCAST,
    ),
    Case(
        "a loop on a line",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
for x in [torch.zeros(1)]: out = model(x)
""",
        refused="is no statement of its own",
        **AUTOCAST,
    ),
]

COMPILE: dict[str, Any] = {"change": "compile", "site": "forward"}
COMPILES = [
    Case(
        "without options",
        """\
import torch
model = torch.nn.Conv2d(3, 4)
model = model.to("cpu")
out = model(torch.zeros(1))
""",
        wants={"compiled": "compiled {}"},
        contains='model = model.to("cpu")\nmodel.compile()\n',
        settings={},
        **COMPILE,
    ),
    Case(
        "with a mode, at the end of a function without a newline",
        "import torch\ndef main(x):\n    model = torch.nn.Conv2d(3, 4); print(model.train())\n"
        "    model(x)\ntorch.nn.Module.__str__ = lambda self: 'm'\nmain(torch.zeros(1))",
        wants={"compiled": "compiled {'mode': 'max-autotune'}"},
        contains="print(model.train())\n    model.compile(mode='max-autotune')\n",
        settings={"mode": "max-autotune"},
        **COMPILE,
    ),
    Case(
        "a model from another file",
        """\
import torch
def run(model, x):
    return model(x)
print(type(list(map(run, [torch.nn.Conv2d(3, 4)], [torch.zeros(1)]))))
""",
        refused="what calls the function that gets model is not to be seen",
        settings={},
        **COMPILE,
    ),
]
