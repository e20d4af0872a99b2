"""Optimizers that are none of torch's: how they are found, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from stepscope.collect.backward import BackwardCollector
from stepscope.collect.other_optimizers import OtherOptimizers
from stepscope.collect.steps import StepsCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started


class Descent:
    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        self._parameters = list(parameters)

    @torch.no_grad()
    def step(self) -> None:
        for one in self._parameters:
            assert one.grad is not None
            one -= 0.1 * one.grad

    def zero_grad(self) -> None:
        for one in self._parameters:
            one.grad = None


class Trainer:
    """Its `step` is a step of training."""

    def __init__(self) -> None:
        self.weight = torch.ones(2, requires_grad=True)
        self.optimizer: Any = Descent([self.weight])

    def step(self) -> None:
        self.weight.sum().backward()
        self.optimizer.step()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()


@pytest.fixture
def watched(started: Started, recorder: Recorder) -> StepsCollector:
    steps: StepsCollector = started(StepsCollector())
    others = OtherOptimizers(lambda: False, steps.watch_other, recorder.failed)
    started(BackwardCollector(after=others.after_backward))
    return steps


def test_it_is_found_in_an_attribute_and_every_step_is_counted(
    watched: StepsCollector, read: Read
) -> None:
    trainer = Trainer()
    for _ in range(3):
        trainer.zero_grad()
        trainer.step()
    found = [row.name for row in read() if row.name != names.OPTIMIZER_ZERO]
    assert found == [names.BACKWARD, names.OPTIMIZER_STEP] * 3
    assert watched._steps == 3


def test_a_variable_is_enough_and_the_class_is_left_as_it_was(watched: StepsCollector) -> None:
    step = Descent.step
    weight = torch.ones(2, requires_grad=True)
    optimizer = Descent([weight])
    weight.sum().backward()
    assert Descent.step is not step
    optimizer.step()
    assert weight.tolist() == pytest.approx([0.9, 0.9])
    watched.stop()
    assert Descent.step is step


def test_with_an_optimizer_of_torchs_nobody_looks(started: Started, recorder: Recorder) -> None:
    steps: StepsCollector = started(StepsCollector())
    found: list[type] = []
    others = OtherOptimizers(lambda: steps.has_optimizers, found.append, recorder.failed)
    started(BackwardCollector(after=others.after_backward))
    weight = torch.ones(2, requires_grad=True)
    unused, used = Descent([weight]), torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    assert found == [], (unused, used)
