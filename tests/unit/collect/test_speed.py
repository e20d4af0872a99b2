from __future__ import annotations

import subprocess
import sys
from typing import cast

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from stepscope.collect.speed import CALM_INTERVAL_NS, INTERVAL_NS, SpeedReference
from stepscope.model import names
from stepscope.record.recorder import Recorder


class ByHand:
    """A recorder whose clock moves 20 µs with every look at it."""

    def __init__(self) -> None:
        self.clock_ns = 0
        self.samples: list[tuple[str, float]] = []

    def intern(self, name: str) -> str:
        return name

    def now_ns(self) -> int:
        self.clock_ns += 20_000
        return self.clock_ns

    def sample(self, name: str, value: float) -> None:
        self.samples.append((name, value))


@pytest.fixture
def recorder() -> ByHand:
    return ByHand()


@pytest.fixture
def after() -> list[int]:
    return []


@pytest.fixture
def timed(recorder: ByHand, after: list[int]) -> SpeedReference:
    def first() -> None:
        after.append(recorder.clock_ns)

    return SpeedReference(cast("Recorder", recorder), first, torch)


def test_no_thread_is_started_for_it() -> None:
    # GIVEN a new process, in which torch may use two threads and has started none
    program = """
import os, torch
from stepscope.collect.cost import measure_hook_cost
from stepscope.collect.speed import SpeedReference
from stepscope.record.recorder import Recorder

torch.set_num_threads(2)
recorder, before = Recorder(), os.listdir("/proc/self/task")
measure_hook_cost(recorder)
SpeedReference(recorder, lambda: None, torch)()
assert os.listdir("/proc/self/task") == before
"""

    # WHEN
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    # THEN
    assert done.returncode == 0, done.stderr


def test_for_those_who_only_watch_it_is_timed_less_often(
    recorder: ByHand, timed: SpeedReference
) -> None:
    def times() -> int:
        return [name for name, _ in recorder.samples].count(names.REFERENCE_NS)

    timed.set_calm(True)
    timed()
    recorder.clock_ns += INTERVAL_NS
    timed()
    assert times() == 1
    recorder.clock_ns += CALM_INTERVAL_NS
    timed()
    assert times() == 2
    timed.set_calm(False)
    for _ in range(2):
        recorder.clock_ns += CALM_INTERVAL_NS
        timed()
    recorder.clock_ns += INTERVAL_NS
    timed()
    assert times() == 5


def test_what_all_of_it_took_is_told_now_and_then(recorder: ByHand, timed: SpeedReference) -> None:
    for _ in range(64):
        timed()
        recorder.clock_ns += INTERVAL_NS
    told = [value for name, value in recorder.samples if name == names.OWN_REFERENCE_NS]
    assert told == [32 * 20_000.0, 64 * 20_000.0]


def test_the_same_work_is_timed_at_the_first_step_and_then_now_and_again(
    recorder: ByHand, timed: SpeedReference
) -> None:
    for _ in range(3):
        timed()
    assert recorder.samples == [(names.REFERENCE_NS, 20_000.0)]
    recorder.clock_ns += INTERVAL_NS
    timed()
    assert len(recorder.samples) == 2


def test_what_else_happens_at_step_ends_happens_at_each(
    timed: SpeedReference, after: list[int]
) -> None:
    for _ in range(3):
        timed()

    assert len(after) == 3


def test_it_draws_no_random_number_and_needs_no_gradient(
    recorder: ByHand, timed: SpeedReference
) -> None:
    before = torch.get_rng_state()
    with torch.no_grad():
        timed()
    recorder.clock_ns += INTERVAL_NS
    with torch.autocast("cpu", torch.bfloat16):
        timed()

    assert torch.equal(torch.get_rng_state(), before)
    assert len(recorder.samples) == 2


@pytest.mark.parametrize("mode", [TorchDispatchMode, lambda: FlopCounterMode(display=False)])
def test_it_waits_while_somebody_sees_every_operator(
    recorder: ByHand, timed: SpeedReference, after: list[int], mode: type[TorchDispatchMode]
) -> None:
    with mode() as watching:
        timed()

    assert recorder.samples == []
    assert len(after) == 1
    if isinstance(watching, FlopCounterMode):
        assert watching.get_total_flops() == 0


def test_it_waits_while_the_program_chooses_a_device_for_new_tensors(
    recorder: ByHand, timed: SpeedReference
) -> None:
    with torch.device("meta"):
        timed()
    assert recorder.samples == []


def test_it_waits_in_inference_mode(recorder: ByHand, timed: SpeedReference) -> None:
    with torch.inference_mode():
        timed()
    assert recorder.samples == []
    recorder.clock_ns += INTERVAL_NS
    timed()
    assert len(recorder.samples) == 1


def test_it_waits_while_the_program_is_profiled(recorder: ByHand, timed: SpeedReference) -> None:
    with torch.autograd.profiler.profile(use_kineto=False):
        timed()
    assert recorder.samples == []


def test_started_where_its_matrices_cannot_be_made_it_never_times_anything(
    recorder: ByHand,
) -> None:
    with torch.device("meta"):
        timed = SpeedReference(cast("Recorder", recorder), lambda: None, torch)
    timed()
    assert recorder.samples == []
