"""Calls on tensors, gradients and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.tune.patch.programs import Case, check_case

ZERO: dict[str, Any] = {"change": "zero-grad", "site": "zero_grad", "settings": {}}
TO: dict[str, Any] = {
    "change": "non-blocking",
    "site": "to",
    "settings": {},
    "wants": {"non_blocking": True},
}
SINGLE: dict[str, Any] = {"change": "float32", "settings": {}}
PLAIN: dict[str, Any] = {"change": "recompute", "site": "checkpoint", "settings": {}}

CASES = [
    Case(
        "zero_grad by name",
        "import torch\nopt = torch.optim.AdamW([])\nopt.zero_grad(set_to_none=False)\n",
        wants={"set_to_none": True},
        **ZERO,
    ),
    Case(
        "zero_grad by position",
        "import torch\ntorch.nn.Module().zero_grad(False)\n",
        wants={"set_to_none": True},
        contains="zero_grad(True)",
        **ZERO,
    ),
    Case(
        "zero_grad of all arguments",
        "import torch\nkw = {'set_to_none': False}\ntorch.nn.Module().zero_grad(**kw)\n",
        refused="takes its arguments from * or **",
        **ZERO,
    ),
    Case("to a device", "import torch\nx = torch.zeros(1).to('cuda')\n", **TO),
    Case(
        "two on a line",
        "import torch\nx = y = torch.zeros(1)\nx, y = x.to('cuda:0'), y.to('cuda:0')\n",
        contains="x.to('cuda:0', non_blocking=True), y.to('cuda:0', non_blocking=True)",
        **TO,
    ),
    Case(
        "a list of them",
        "import torch\nxs = [\n    x.to('cuda', torch.float32)\n    for x in [torch.zeros(1)]\n]\n",
        **TO,
    ),
    Case(
        "cuda",
        "import torch\nx = torch.zeros(1).cuda(0, False)\n",
        contains=".cuda(0, True)",
        **{**TO, "site": "cuda"},
    ),
    Case(
        "cuda without a device",
        "import torch\nx = torch.zeros(1).cuda(None)\n",
        contains=".cuda(None, non_blocking=True)",
        **{**TO, "site": "cuda"},
    ),
    Case(
        "back to the host",
        "import torch\nx = torch.zeros(1).to('cpu')\n",
        refused="no call of .to() or .cuda() to another device",
        **{**TO, "wants": {}},
    ),
    Case(
        "a block",
        """\
from torch.utils.checkpoint import checkpoint
def block(x, scale=1):
    print(x * scale)
    return x
out = checkpoint(
    block,
    3,
    scale=2,
    use_reentrant=False,
)
""",
        contains="out = block(\n    3,\n    scale=2,\n)\n",
        gone=True,
        **PLAIN,
    ),
    Case(
        "a lambda and the module's name",
        "import torch\nimport torch.utils.checkpoint as cp\n"
        "print(cp.checkpoint(lambda x: x + 1, 2, use_reentrant=True))\n",
        contains="print((lambda x: x + 1)(2))",
        gone=True,
        **PLAIN,
    ),
    Case(
        "a block without arguments",
        "from torch.utils.checkpoint import checkpoint as c\nc(print, use_reentrant=False)\n",
        contains="\nprint()\n",
        gone=True,
        **PLAIN,
    ),
    Case(
        "all arguments of a list",
        "from torch.utils.checkpoint import checkpoint\ngiven = [print, 1]\ncheckpoint(*given)\n",
        refused="what is recomputed is not said first",
        **PLAIN,
    ),
    Case(
        "double",
        "import torch\nx = torch.zeros(1).double()\nprint(str(x)[:5])\n",
        site="double",
        contains="torch.zeros(1).float()\n",
        gone=True,
        **SINGLE,
    ),
    Case(
        "the default",
        "import torch\ntorch.set_default_dtype(torch.float64)\n",
        site="set_default_dtype",
        wants={"d": "float32"},
        **SINGLE,
    ),
    Case(
        "a dtype by name",
        "import torch as t\nx = t.tensor([1], dtype=t.double)\n",
        site="tensor",
        wants={"dtype": "float32"},
        contains="dtype=t.float32)",
        **SINGLE,
    ),
    Case(
        "a dtype by a name of its own",
        "import torch\nfrom torch import float64\nx = torch.tensor([1], dtype=float64)\n",
        site="tensor",
        refused="float64 at train.py:3 is float64 under another name",
        **SINGLE,
    ),
    Case(
        "numpy's",
        "import torch\nx = torch.from_numpy([1.0])\ntorch.nn.Conv2d(3, 4)(x.float())\n",
        site="from_numpy",
        what="from_numpy(…).float()",
        contains="x = torch.from_numpy([1.0]).float()\n",
        note="run it once",
        **SINGLE,
    ),
    Case(
        "out of a loader",
        "import torch\nfor x in torch.utils.data.DataLoader([1]):\n    pass\n",
        site="DataLoader",
        what="float32 out of the loader",
        refused="no call that makes float64",
        **SINGLE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_call_that_was_measured_says_it(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)
