"""Sizes of batches, and ways of updating parameters."""

from __future__ import annotations

from typing import Any

from tests.unit.tune.patch.programs import Case

__all__ = ["BATCHES", "OPTIMIZERS"]

BATCH: dict[str, Any] = {"change": "batch", "settings": {"factor": 2}, "again": False}
FUSED: dict[str, Any] = {
    "change": "optimizer",
    "site": "AdamW",
    "settings": {"fused": True},
    "what": "AdamW(fused=True)",
}

BATCHES = [
    Case(
        "a number",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], 16)
""",
        wants={"batch_size": 32},
        contains="DataLoader([1], 32)",
        note="learning rate",
        **BATCH,
    ),
    Case(
        "a variable",
        """\
from torch.utils.data import DataLoader
n = 8
loader = DataLoader([1], batch_size=n)
""",
        wants={"batch_size": 16},
        contains="batch_size=2 * n)",
        **BATCH,
    ),
    Case(
        "a sum",
        """\
from torch.utils.data import DataLoader
n = 8
loader = DataLoader([1], batch_size=n + 1)
""",
        wants={"batch_size": 18},
        contains="batch_size=2 * (n + 1))",
        **BATCH,
    ),
    Case(
        "none",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1])
""",
        wants={"batch_size": 2},
        **BATCH,
    ),
    Case(
        "a dictionary of two loaders",
        """\
from torch.utils.data import DataLoader
kw = dict(batch_size=3)
a = DataLoader([1], **kw)
b = DataLoader([2], **kw)
""",
        wants={"batch_size": 6},
        contains="kw = dict(batch_size=6)",
        **BATCH,
    ),
    Case(
        "keywords handed through",
        """\
from torch.utils.data import DataLoader
def make(d, **kw):
    return DataLoader(d, **kw)
make([1], batch_size=3)
""",
        wants={"batch_size": 6},
        contains='**{**kw, "batch_size": 2 * kw.get("batch_size", 1)}',
        **BATCH,
    ),
    Case(
        "a dictionary with more in the call",
        """\
from torch.utils.data import DataLoader

base = {"shuffle": True}
loader = DataLoader([1], **{**base, "batch_size": 4})
""",
        wants={"batch_size": 8},
        contains='**{**base, "batch_size": 8}',
        **BATCH,
    ),
    Case(
        "no batches",
        """\
from torch.utils.data import DataLoader

loader = DataLoader([1], batch_size=None)
""",
        refused="a batch_size of None has no multiple",
        **BATCH,
    ),
    Case(
        "a sampler of batches",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], batch_sampler=[[0]])
""",
        refused="batches are made by the batch_sampler",
        **BATCH,
    ),
    Case(
        "partial",
        """\
from torch.utils.data import DataLoader
from functools import partial
make = partial(DataLoader, batch_size=3)
make([1])
""",
        refused="batch_size is not said in the call",
        **BATCH,
    ),
]
OPTIMIZERS = [
    Case(
        "a plain call",
        """\
import torch
opt = torch.optim.AdamW([], lr=0.1)
""",
        wants={"fused": True},
        contains="AdamW([], lr=0.1, fused=True)",
        **FUSED,
    ),
    Case(
        "the other way",
        """\
from torch import optim
opt = optim.AdamW(
    [],
    foreach=False,  # slow
    lr=0.1,
)
""",
        wants={"fused": True, "foreach": None},
        contains="""\
    fused=True,  # slow
    lr=0.1,
)""",
        **FUSED,
    ),
    Case(
        "both ways",
        """\
from torch.optim import AdamW
opt = AdamW([], foreach=True, fused=False)
""",
        wants={"fused": True, "foreach": False},
        **FUSED,
    ),
    Case(
        "a dictionary with the other way",
        """\
from torch.optim import AdamW
kw = dict(lr=1, foreach=True)
opt = AdamW([], **kw)
""",
        wants={"fused": True, "foreach": False},
        contains="""\
kw = dict(lr=1, foreach=False)
opt = AdamW([], **kw, fused=True)
""",
        **FUSED,
    ),
    Case(
        "keywords handed through",
        """\
from torch.optim import AdamW
def make(**kw):
    return AdamW([], **kw)
make(foreach=True)
""",
        wants={"fused": True, "foreach": False},
        contains='AdamW([], **{**kw, "foreach": False, "fused": True})',
        **FUSED,
    ),
    Case(
        "a subclass",
        """\
import torch
class Mine(torch.optim.AdamW):
    pass
opt = Mine([], 0.1)
""",
        wants={"fused": True},
        **{**FUSED, "site": "Mine", "what": "Mine(fused=True)"},
    ),
    Case(
        "a name from a table",
        """\
import torch
opt = getattr(torch.optim, 'AdamW')([], lr=0.1)
""",
        refused="no call of AdamW by its name",
        **FUSED,
    ),
    Case(
        "foreach in its place",
        """\
from torch.optim import RMSprop
opt = RMSprop([], 0.1, 0.9, 1e-8, 0, 0, False, False, False)
""",
        wants={"foreach": True},
        contains="False, False, True)",
        **{
            **FUSED,
            "site": "RMSprop",
            "settings": {"foreach": True},
            "what": "RMSprop(foreach=True)",
        },
    ),
]
