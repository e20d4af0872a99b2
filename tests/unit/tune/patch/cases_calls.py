"""Calls of DataLoader, and where their arguments come from."""

from __future__ import annotations

from tests.unit.tune.patch.programs import Case

__all__ = ["CALLS", "FULL", "WORKERS"]

WORKERS = {"num_workers": 2}
FULL = {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True}

CALLS = [
    Case(
        "a plain call",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], batch_size=4)
""",
        wants=WORKERS,
    ),
    Case(
        "a keyword that is there",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], num_workers = 0, shuffle=True)
""",
        wants=WORKERS,
        contains="DataLoader([1], num_workers = 2, shuffle=True)\n",
    ),
    Case(
        "several settings",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], 4)
""",
        wants=FULL,
        settings={
            "num_workers": 2,
            "prefetch_factor": 4,
            "persistent_workers": True,
            "site": {"file": "train.py", "line": 2},
            "iterable": True,
        },
        contains="""\
DataLoader([1], 4, num_workers=2, prefetch_factor=4, persistent_workers=True)
""",
    ),
    Case(
        "arguments without names",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], 4, True, None, None, 0, None, False)
""",
        wants={"num_workers": 2, "pin_memory": True},
        settings={"num_workers": 2, "pin_memory": True},
        contains="DataLoader([1], 4, True, None, None, 2, None, True)\n",
    ),
    Case(
        "no arguments but one",
        """\
import torch.utils.data as tud
tud.DataLoader([1])
""",
        wants=WORKERS,
    ),
    Case(
        "an alias",
        """\
from torch.utils.data import DataLoader as DL
Make = DL
loader = Make([1])
""",
        wants=WORKERS,
        contains="Make([1], num_workers=2)",
    ),
    Case(
        "the full name",
        """\
import torch
loader = torch.utils.data.DataLoader(dataset=[1], num_workers=1)
""",
        wants=WORKERS,
    ),
    Case(
        "a constant of the module",
        """\
from torch.utils.data import DataLoader
WORKERS = 0  # few
loader = DataLoader([1], num_workers=WORKERS)
""",
        wants=WORKERS,
        contains="""\
WORKERS = 2  # few
loader = DataLoader([1], num_workers=WORKERS)
""",
    ),
    Case(
        "a constant of two loaders",
        """\
from torch.utils.data import DataLoader
N: int = 0
a = DataLoader([1], num_workers=N)
b = DataLoader([2], num_workers=N)
""",
        wants=WORKERS,
        contains="N: int = 2\n",
    ),
    Case(
        "a constant that is used elsewhere",
        """\
from torch.utils.data import DataLoader
N = 0
print(N)
loader = DataLoader([1], num_workers=N)
""",
        wants=WORKERS,
        contains="DataLoader([1], num_workers=2)",
        note="train.py:4: num_workers was N and is 2 now",
    ),
    Case(
        "a constant of a loader that was not measured",
        """\
from torch.utils.data import DataLoader
N = 0
a = DataLoader([1], num_workers=N)
b = DataLoader([2], num_workers=N)
""",
        wants=WORKERS,
        measured=[0],
        contains="""\
N = 0
a = DataLoader([1], num_workers=2)
b = DataLoader([2], num_workers=N)
""",
    ),
    Case(
        "argparse",
        """\
import argparse
from torch.utils.data import DataLoader

def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args([])
    return DataLoader([1], batch_size=2, num_workers=args.workers)

if __name__ == "__main__":
    main()
""",
        wants=WORKERS,
        note="whatever args.workers says",
    ),
    Case(
        "a dataclass of settings",
        """\
from dataclasses import dataclass
import torch

@dataclass
class Config:
    workers: int = 0
    batch: int = 4

config = Config()
loader = torch.utils.data.DataLoader([1], config.batch, num_workers=config.workers)
""",
        wants=WORKERS,
        note="config.workers",
    ),
    Case(
        "a dictionary of options",
        """\
from torch.utils.data import DataLoader
options = {"batch_size": 4, "num_workers": 0}
loader = DataLoader([1], **options)
""",
        wants=WORKERS,
        contains="""\
options = {"batch_size": 4, "num_workers": 2}
loader = DataLoader([1], **options)
""",
    ),
    Case(
        "dict() without the option",
        """\
from torch.utils.data import DataLoader
options = dict(batch_size=4)
loader = DataLoader([1], **options)
""",
        wants=WORKERS,
        contains="""\
options = dict(batch_size=4)
loader = DataLoader([1], **options, num_workers=2)
""",
    ),
    Case(
        "dict() with the option",
        """\
from torch.utils.data import DataLoader
def main():
    kw = dict(
        batch_size=4,
        num_workers=0,  # none
    )
    return DataLoader([1], **kw)
main()
""",
        wants=WORKERS,
        contains="        num_workers=2,  # none\n",
    ),
    Case(
        "a dictionary of two loaders, one measured",
        """\
from torch.utils.data import DataLoader
kw = {"num_workers": 0}
a = DataLoader([1], **kw)
b = DataLoader([2], **kw)
""",
        wants=WORKERS,
        measured=[0],
        contains="""\
a = DataLoader([1], **{**kw, "num_workers": 2})
b = DataLoader([2], **kw)
""",
    ),
    Case(
        "a dictionary that is changed later",
        """\
from torch.utils.data import DataLoader
kw = {"num_workers": 0}
kw["num_workers"] = 1
loader = DataLoader([1], **kw)
""",
        wants=FULL,
        settings=FULL,
        contains="""\
**{**kw, "num_workers": 2, "prefetch_factor": 4, "persistent_workers": True})""",
    ),
    Case(
        "keywords handed through",
        """\
from torch.utils.data import DataLoader
def make(data, **kw):
    return DataLoader(data, **kw)
make([1], num_workers=1)
""",
        wants=WORKERS,
    ),
    Case(
        "a dictionary in the call",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], **{"num_workers": 0, "batch_size": 2})
""",
        wants=WORKERS,
        contains='**{"num_workers": 2, "batch_size": 2}',
    ),
    Case(
        "a dictionary of others in the call",
        """\
from torch.utils.data import DataLoader

base = {"num_workers": 1}
loader = DataLoader([1], **{"num_workers": 0, **base})
""",
        wants=WORKERS,
        contains='**{**{"num_workers": 0, **base}, "num_workers": 2}',
    ),
    Case(
        "two dictionaries",
        """\
from torch.utils.data import DataLoader
a, b = {}, {}
loader = DataLoader([1], **a, **b)
""",
        refused="may be in any of the ** arguments",
    ),
    Case(
        "arguments from a list",
        """\
from torch.utils.data import DataLoader
given = ([1], 4)
loader = DataLoader(*given)
""",
        refused="may be in the * arguments",
    ),
]
