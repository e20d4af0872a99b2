"""Statements that call a model, and models that are compiled."""

from __future__ import annotations

from typing import Any

from tests.unit.tune.patch.programs import Case

__all__ = ["AUTOCASTS", "COMPILES"]

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
