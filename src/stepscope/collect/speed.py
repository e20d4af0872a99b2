"""How fast the machine is while the program trains: a piece of work that is always the same.

Other programs, and other virtual machines, slow a program down without taking its CPU away: they
use the same caches and the other half of its core. Runs of the same program differ by 5 to 10 % for
that. What our own piece of work takes, between steps, on the thread that trains, tells these apart
from changes of the program (analyze/compare_ratio.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["SpeedReference"]

# Some 20 µs, cold: 0.1 % of the time. Cold is what makes it tell: caches are what others take away.
# In plain Python, because nothing in the program can see that or change it.
INTERVAL_NS = 25_000_000
_ADDED = 300
_DOCUMENT = {"a": [1, 2.5, "x"], "b": {"c": None, "d": [True, 3.5, [7, "y"], "z", 0]}}


class SpeedReference:
    """Called at step ends; does its work at most every INTERVAL_NS. `then`: is called after it."""

    def __init__(self, recorder: Recorder, then: Callable[[], None]) -> None:
        self._recorder = recorder
        self._then = then
        self._next_ns = 0
        self._name = recorder.intern(names.REFERENCE_NS)

    def __call__(self) -> None:
        began_ns = self._recorder.now_ns()
        if began_ns >= self._next_ns:
            self._next_ns = began_ns + INTERVAL_NS
            _work()
            self._recorder.sample(self._name, float(self._recorder.now_ns() - began_ns))
        self._then()


def _work() -> None:
    """Sums, and calls that take small objects apart. No function of anybody else: under the
    program's torch.compile those would be compiled, ours are not."""
    total = 0
    for number in range(_ADDED):
        total += number
    _written(_DOCUMENT)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([key + ":" + _written(inner) for key, inner in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_written(inner) for inner in value]) + "]"
    return str(value)
