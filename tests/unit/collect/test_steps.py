from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from stepscope.collect.steps import StepsCollector
from stepscope.model import names
from stepscope.model.event import Flag
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started


def parameter() -> nn.Parameter:
    made = nn.Parameter(torch.ones(2))
    made.grad = torch.ones(2)
    return made


def test_every_step_is_a_span_and_counts(started: Started, read: Read) -> None:
    started(StepsCollector())
    first = torch.optim.SGD([parameter()], lr=0.1)
    second = torch.optim.Adam([parameter()])

    first.step()
    second.step()
    first.zero_grad()

    rows = read()
    assert [(row.name, row.arg, row.step) for row in rows] == [
        ("optimizer.step", id(first), 0),
        ("optimizer.step", id(second), 1),
        ("optimizer.zero_grad", 0, 2),
    ]


def test_zeroing_the_gradients_of_a_module_is_a_span(started: Started, read: Read) -> None:
    started(StepsCollector())
    model = nn.Sequential(nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()

    model.zero_grad()

    assert model[0].weight.grad is None
    assert [row.name for row in read()] == ["optimizer.zero_grad"]


def test_classes_that_torch_hooked_before_are_seen_too(started: Started, read: Read) -> None:
    optimizer = torch.optim.Adagrad([parameter()])
    started(StepsCollector())

    optimizer.step()

    assert [row.arg for row in read(names.OPTIMIZER_STEP)] == [id(optimizer)]


def test_the_users_own_optimizer_is_seen(started: Started, read: Read) -> None:
    started(StepsCollector())

    class Mine(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {})

        def step(self, closure: Any = None) -> str:
            return "mine"

    class Heir(Mine):
        def step(self, closure: Any = None) -> str:
            return super().step() + " too"

    assert Heir([parameter()]).step() == "mine too"
    assert Mine([parameter()]).step() == "mine"
    steps = read(names.OPTIMIZER_STEP)
    assert steps[-1].step == 1, "a step inside a step is the same step"


def test_a_scaler_that_skips_is_a_step_without_one_inside(started: Started, read: Read) -> None:
    started(StepsCollector())
    weight = parameter()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    for gradient in (1.0, float("inf")):
        scaler.scale(weight.sum()).backward()
        weight.grad = torch.full((2,), gradient)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    assert [(row.name, row.step) for row in read() if row.name != "backward"] == [
        (names.OPTIMIZER_SCALE, 0),
        (names.OPTIMIZER_STEP, 0),
        (names.OPTIMIZER_STEP, 0),
        (names.OPTIMIZER_SCALE, 1),
        (names.OPTIMIZER_SCALE, 1),
        (names.OPTIMIZER_STEP, 1),
        (names.OPTIMIZER_SCALE, 2),
    ]
    assert {row.arg for row in read(names.OPTIMIZER_STEP)} == {id(optimizer)}


def test_clipping_is_seen_under_all_its_names(started: Started, read: Read) -> None:
    started(StepsCollector())

    nn.utils.clip_grad_norm_([parameter()], 1.0)
    nn.utils.clip_grad.clip_grad_value_([parameter()], 1.0)

    assert len(read(names.OPTIMIZER_CLIP)) == 2


def test_a_failed_step_is_marked_and_not_counted(started: Started, read: Read) -> None:
    started(StepsCollector())
    optimizer = torch.optim.SGD([parameter()], lr=0.1)

    def closure() -> float:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    optimizer.step()

    assert [(row.flags, row.step) for row in read()] == [(Flag.FAILED, 0), (0, 0)]


def test_hooks_schedulers_copies_and_pickles_work_as_before(started: Started) -> None:
    started(StepsCollector())
    optimizer = torch.optim.SGD([parameter()], lr=0.1)
    seen: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    optimizer.step()
    schedule.step()

    assert seen == ["before", "after"]
    assert schedule.get_last_lr() == [pytest.approx(0.01)]
    assert copy.deepcopy(optimizer).step is not None
    assert pickle.loads(pickle.dumps(torch.optim.SGD)) is torch.optim.SGD


def test_stop_puts_everything_back(recorder: Recorder, read: Read) -> None:
    hook = vars(torch.optim.Optimizer)["profile_hook_step"]
    before = torch.optim.NAdam([parameter()])
    collector = StepsCollector()
    collector.start(recorder)
    collector.start(recorder)
    after = torch.optim.RAdam([parameter()])

    collector.stop()
    before.step()
    after.step()
    torch.optim.RAdam([parameter()]).step()

    assert read() == []
    assert vars(torch.optim.Optimizer)["profile_hook_step"] is hook


def test_the_first_step_is_told_once_and_a_failed_one_is_none(started: Started) -> None:
    begun: list[int] = []
    collector = started(StepsCollector(begun=lambda: begun.append(collector._steps)))
    optimizer = torch.optim.SGD([parameter()], lr=0.1)
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    assert begun == []
    optimizer.step()
    optimizer.step()
    assert begun == [1]


def test_step_ends_are_only_counted_until_the_time_that_was_asked_for(started: Started) -> None:
    told: list[int] = []

    def stepped(_: Any) -> int:
        told.append(collector._steps)
        return 0 if len(told) < 3 else 1 << 62  # for ever

    collector = started(StepsCollector(stepped=stepped))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    for _ in range(10):
        optimizer.step()
    assert collector._steps == 10
    assert told == [1, 2, 3]


def test_while_it_is_calm_most_ends_are_only_counted_and_no_optimizer_is_kept(
    started: Started,
) -> None:
    told: list[Any] = []

    def stepped(optimizer: Any) -> int:
        told.append(id(optimizer))
        return 0

    collector = started(StepsCollector(stepped=stepped))
    collector.set_calm(True)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    for _ in range(5):
        optimizer.step()
    assert collector._steps == 5
    assert told == [id(optimizer)]
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None
    collector.set_calm(False)
