"""Real torch: every scalar that a backward pass begins with."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stepscope.collect.losses import WATCHED_INTERVAL_S, LossCollector
from stepscope.collect.seeds import seed_everything
from stepscope.model import names
from stepscope.record.frames import HEADER, frame
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from stepscope.session.header import Moment, process_header
from stepscope.store.frames import FramesReader
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


def test_a_watched_run_tells_one_loss_in_a_while_and_not_a_number_too(
    tmp_path: Path,
) -> None:
    now_ns = [0]
    core: Any = TwinCore(lambda: now_ns[0])
    recorder = Recorder(core)
    collector = LossCollector(WATCHED_INTERVAL_S)
    collector.start(recorder)
    try:
        for ms, value in ((1, 5.0), (100, 6.0), (202, math.nan), (300, 7.0)):
            now_ns[0] = ms * 1_000_000
            torch.tensor(value, requires_grad=True).backward()
    finally:
        collector.stop()
    header = frame(HEADER, process_header({}, [], "python", Moment(0, 0)))
    path = tmp_path / "drained.frames"
    path.write_bytes(header + recorder.drain())
    rows = [row for batch in FramesReader(path).read_new() for row in batch.rows()]
    told = [row.value for row in rows if row.name == names.LOSS]
    assert told[0] == 5.0
    assert math.isnan(told[1])
    assert len(told) == 2


def test_a_watched_run_does_not_wait_for_a_device(read: Read, started: Started) -> None:
    started(LossCollector(WATCHED_INTERVAL_S))
    loss = torch.ones((), requires_grad=True, device="meta")  # reading it would raise
    loss.backward()
    assert read() == []
