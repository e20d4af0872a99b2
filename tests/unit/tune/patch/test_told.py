"""What changes tell of a real program in real torch is what patches are made from."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepscope.model.change import Applied, Change
from stepscope.tune.changes import injection_class
from stepscope.tune.injection import Site
from stepscope.tune.patch import patch_for

BEFORE = """\
import gc
import numpy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 2, 2)

    def forward(self, x):
        return checkpoint(
            self.first, x, use_reentrant=False
        ).mean()


model = Net()
data = torch.from_numpy(
    numpy.ones((12, 3, 4, 4))
)
optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=1e-3,
)
loader = DataLoader(data, 2,
                    shuffle=True)
for number, x in enumerate(loader):
    loss = (
        model(x.float())
        .abs()
    )
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    after_step(optimizer)
    gc.collect()
"""
AFTER = """\
import gc
import numpy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 2, 2)

    def forward(self, x):
        return self.first(
            x
        ).mean()


model = Net()
data = torch.from_numpy(
    numpy.ones((12, 3, 4, 4))
).float()
optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=1e-3,
    fused=True,
)
loader = DataLoader(data, 4,
                    shuffle=True)
for number, x in enumerate(loader):
    loss = (
        model(x.float())
        .abs()
    )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    after_step(optimizer)
    if number % 7 == 0:
        gc.collect()
"""
CHANGES = [
    Change("optimizer", "", {"fused": True}),
    Change("batch", "", {"factor": 2}),
    Change("zero-grad", ""),
    Change("float32", ""),
    Change("recompute", ""),
    Change("gc", "", {"every_steps": 7, "freeze": False}),
]


class Heard:
    """Told, in a list."""

    def __init__(self, change: str, into: list[Applied]) -> None:
        self._change, self._into = change, into

    def applied(self, what: str, site: Site | None = None) -> None:
        self._into.append(Applied(self._change, what, False, *(site or ())))

    def refused(self, why: str, site: Site | None = None) -> None:
        self._into.append(Applied(self._change, why, True, *(site or ())))

    def failed(self, where: str, error: BaseException) -> None:
        raise error


@contextmanager
def injected(told: list[Applied]) -> Iterator[Any]:
    """Makes the changes; gives what is to be called after each step."""
    made = [injection_class(one.name)(one.settings, Heard(one.name, told)) for one in CHANGES]

    def after_step(optimizer: Any) -> None:
        for one in made:
            one.stepped(optimizer)

    for one in made:
        one.install()
    try:
        yield after_step
    finally:
        for one in reversed(made):
            one.undo()


def test_a_program_is_patched_where_its_changes_took_hold(tmp_path: Path) -> None:
    import torch  # noqa: F401 - the changes are made behind its import

    path = tmp_path / "train.py"
    path.write_text(BEFORE)
    told: list[Applied] = []
    with injected(told) as after_step:
        runpy.run_path(str(path), {"after_step": after_step})
    own = [one for one in told if one.file == str(path)]  # not those of after_step
    patch = patch_for(
        [(change, [one for one in own if one.change == change.name]) for change in CHANGES],
        tmp_path,
    )
    (edit,) = patch.edits
    assert edit.after == AFTER
    assert [one.change.name for one in patch.refused] == ["gc"]
    path.write_text(edit.after)
    runpy.run_path(str(path), {"after_step": lambda optimizer: None})
