from __future__ import annotations

import time

import pytest
import torch

from stepscope.collect.backward import BackwardCollector
from stepscope.model.event import Flag
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started


def test_backward_and_grad_are_spans(started: Started, read: Read) -> None:
    started(BackwardCollector())
    x = torch.ones(2, requires_grad=True)

    (x * 2).sum().backward()
    (gradient,) = torch.autograd.grad((x * 3).sum(), x)

    assert x.grad is not None
    assert (x.grad.tolist(), gradient.tolist()) == ([2.0, 2.0], [3.0, 3.0])
    assert [row.name for row in read()] == ["backward", "backward"]


def test_a_backward_passes_one_hook(recorder: Recorder, started: Started, read: Read) -> None:
    started(BackwardCollector())

    torch.ones(2, requires_grad=True).sum().backward()

    assert len(read()) == 1
    assert recorder.counters()["probes"] == 1


def test_the_python_around_the_engine_is_part_of_the_span(
    started: Started, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(BackwardCollector())
    x = torch.ones(2, requires_grad=True)
    make_gradients = torch.autograd._make_grads

    def slow(*args: object, **kwargs: object) -> object:
        time.sleep(0.01)
        return make_gradients(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "_make_grads", slow)
    (x * 2).sum().backward()
    torch.autograd.grad((x * 3).sum(), x)

    lasted = [row.duration_ns for row in read()]
    assert len(lasted) == 2
    assert min(lasted) >= 10_000_000


def test_a_backward_inside_a_backward_is_no_span_of_its_own(started: Started, read: Read) -> None:
    started(BackwardCollector())
    x, inner = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y, z = x * 2, (inner * 3).sum()
    y.register_hook(lambda _: z.backward())

    y.sum().backward()

    assert inner.grad is not None
    assert len(read()) == 1


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
    def entries() -> list[object]:
        own = torch.autograd
        return [own.backward, own.grad, own._engine_run_backward, own.graph._engine_run_backward]

    before = entries()

    started(BackwardCollector()).stop()

    assert entries() == before
