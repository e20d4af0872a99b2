from __future__ import annotations

import pytest
import torch

from stepscope.collect.backward import BackwardCollector
from stepscope.model.event import Flag
from tests.unit.collect.conftest import Read, Started


def test_backward_and_grad_are_spans(started: Started, read: Read) -> None:
    started(BackwardCollector())
    x = torch.ones(2, requires_grad=True)

    (x * 2).sum().backward()
    (gradient,) = torch.autograd.grad((x * 3).sum(), x)

    assert x.grad is not None
    assert (x.grad.tolist(), gradient.tolist()) == ([2.0, 2.0], [3.0, 3.0])
    assert [row.name for row in read()] == ["backward", "backward"]


def test_an_error_in_a_hook_passes_and_marks_the_span(started: Started, read: Read) -> None:
    started(BackwardCollector())
    x = torch.ones(2, requires_grad=True)

    def hook(_: torch.Tensor) -> None:
        raise KeyError("mine")

    y = x * 2
    y.register_hook(hook)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()

    assert [row.flags for row in read()] == [Flag.FAILED]


def test_stop_gives_torch_its_own_engine_back(started: Started) -> None:
    before = (torch.autograd._engine_run_backward, torch.autograd.graph._engine_run_backward)

    started(BackwardCollector()).stop()

    after = (torch.autograd._engine_run_backward, torch.autograd.graph._engine_run_backward)
    assert after == before
