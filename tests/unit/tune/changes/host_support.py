"""What the tests of changes share: somebody who listens, and a small training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from stepscope.tune.injection import Injection, Site

__all__ = ["Heard", "installed", "small_model", "train"]


class Heard:
    """A `Told` that remembers."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Site | None]] = []
        self.no: list[str] = []
        self.errors: list[BaseException] = []

    def applied(self, what: str, site: Site | None = None) -> None:
        self.done.append((what, site))

    def refused(self, why: str, site: Site | None = None) -> None:
        self.no.append(why)

    def failed(self, where: str, error: BaseException) -> None:
        self.errors.append(error)

    @property
    def whats(self) -> list[str]:
        return [what for what, _ in self.done]

    @property
    def functions(self) -> list[str | None]:
        """Names of the functions of the program that were told of."""
        return [None if site is None else site.function for _, site in self.done]


@contextmanager
def installed(kind: type[Injection], **settings: Any) -> Iterator[tuple[Any, Heard]]:
    """The change, in place."""
    heard = Heard()
    change = kind(settings, heard)
    change.install()
    try:
        yield change, heard
    finally:
        change.finish()
        change.undo()


def small_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    change: Injection | None = None,
    steps: int = 4,
) -> list[float]:
    """The losses. `change` is told of the model and of each step, as by the collectors."""
    numbers = torch.Generator().manual_seed(3)
    losses = []
    for step in range(steps):
        x = torch.randn(5, 6, generator=numbers)
        if change is not None and step == 0:
            change.seen(model)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if change is not None:
            change.stepped(optimizer)
        losses.append(loss.item())
    return losses
