from __future__ import annotations

import json

from stepscope.model import names
from tests.unit.analyze.made import (
    MS,
    Event,
    backward,
    exhausted,
    forward,
    in_eval,
    iter_,
    loop,
    mark,
    next_,
    optimizer,
)


def epoch(at: float) -> list[Event]:
    """Two batches of training and two of evaluation; both iterators have the same address."""
    train = mark(names.LOADER, at + 1.5, 77, json.dumps({"workers": 2, "dataset": "Train"}))
    check = mark(names.LOADER, at + 101.5, 77, json.dumps({"workers": 0, "dataset": "Check"}))
    return [
        iter_(at, at + 1, 77), train,
        next_(at + 2, at + 12, 77), forward(at + 12, at + 20),
        backward(at + 20, at + 30), optimizer(at + 30, at + 40),
        next_(at + 40, at + 45, 77), forward(at + 45, at + 50), backward(at + 50, at + 60),
        optimizer(at + 60, at + 70), exhausted(at + 70, at + 71, 77),
        iter_(at + 100, at + 101, 77), check,
        next_(at + 102, at + 110, 77), in_eval(at + 110, at + 120),
        exhausted(at + 120, at + 121, 77),
    ]  # fmt: skip


def test_loaders_are_told_apart_though_their_iterators_had_the_same_address() -> None:
    found = loop([event for at in (0, 200, 400) for event in epoch(at)])
    (use,) = found.loaders
    assert use.settings == {"workers": 2, "dataset": "Train"}
    assert (use.iterations, use.batches) == (3, 6)
    assert use.iter_ns == 3 * MS
    assert use.first_ns == 30 * MS


def test_settings_that_cannot_be_read_are_not_known() -> None:
    events = [iter_(0, 1), mark(names.LOADER, 1, 1, "{torn"), next_(1, 5)]
    found = loop([*events, forward(5, 6), backward(6, 7), optimizer(7, 8)])
    assert found.loaders[0].settings == {}
    assert found.loaders[0].wait_ns == 5 * MS
