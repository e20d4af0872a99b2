from __future__ import annotations

from typing import cast

from stepscope.collect.speed import INTERVAL_NS, SpeedReference
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


def reference(recorder: ByHand, after: list[int]) -> SpeedReference:
    return SpeedReference(cast("Recorder", recorder), lambda: after.append(recorder.clock_ns))


def test_the_same_work_is_timed_at_the_first_step_and_then_now_and_again() -> None:
    recorder = ByHand()
    after: list[int] = []
    timed = reference(recorder, after)

    for _ in range(3):
        timed()
    assert recorder.samples == [(names.REFERENCE_NS, 20_000.0)]
    recorder.clock_ns += INTERVAL_NS
    timed()
    assert len(recorder.samples) == 2


def test_what_else_happens_at_step_ends_happens_at_each() -> None:
    recorder = ByHand()
    after: list[int] = []
    timed = reference(recorder, after)

    for _ in range(3):
        timed()

    assert len(after) == 3
