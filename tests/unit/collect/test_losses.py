"""Real torch: every scalar that a backward pass begins with."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from stepscope.collect.losses import LossCollector
from stepscope.collect.seeds import seed_everything
from stepscope.model import names
from tests.unit.collect.conftest import Read, Started


def test_every_loss_is_told_and_gradients_stay_what_they_are(read: Read, started: Started) -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    started(LossCollector())
    for scale in (1.0, 3.0):
        (scale * weight.sum()).backward()
    assert [row.value for row in read(names.LOSS)] == [3.0, 9.0]
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0, 4.0]


def test_what_is_no_scalar_is_no_loss(read: Read, started: Started) -> None:
    weight = torch.ones(3, requires_grad=True)
    started(LossCollector())
    (2 * weight).backward(torch.ones(3))
    assert read(names.LOSS) == []


def test_an_error_of_the_program_passes_through(started: Started) -> None:
    started(LossCollector())
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.tensor(1.0).backward()


def test_two_programs_that_are_seeded_alike_draw_the_same() -> None:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    drawn = []
    try:
        for _ in range(2):
            seed_everything(5)
            drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
    assert drawn[0] == drawn[1]
