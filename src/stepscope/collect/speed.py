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

# Some 35 µs, cold: 0.1 % of the time. Cold is what makes it tell: caches are what others take away.
INTERVAL_NS = 30_000_000
CALM_INTERVAL_NS = 5_000_000_000  # where it may cost next to nothing
_TOLD_EVERY = 32  # times, between two that it is told what all of them cost
_ADDED = 300
_DOCUMENT = {"a": [1, 2.5, "x"], "b": {"c": None, "d": [True, 3.5, [7, "y"], "z", 0]}}
_SIZE = 64  # of the matrix: a product with a vector takes some 2 µs
_PRODUCTS = 4


class SpeedReference:
    """Called at step ends; does its work at most every INTERVAL_NS. `first`: is called at each."""

    def __init__(self, recorder: Recorder, first: Callable[[], None], torch: Any) -> None:
        self._recorder = recorder
        self._first = first
        self._next_ns = 0
        self._interval_ns = INTERVAL_NS
        self._name = recorder.intern(names.REFERENCE_NS)
        self._own = recorder.intern(names.OWN_REFERENCE_NS)
        self._count = self._spent_ns = 0
        self._product = _Product(torch)

    def __call__(self) -> None:
        self._first()
        now_ns = self._recorder.now_ns()
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + self._interval_ns
            if self._product.may_be_made():
                self._work()

    def set_calm(self, calm: bool) -> None:
        """calm: less often."""
        self._interval_ns = CALM_INTERVAL_NS if calm else INTERVAL_NS

    def _work(self) -> None:
        """Sums, calls that take small objects apart, and products. No Python function of anybody
        else: under the program's torch.compile those would be compiled, ours are not."""
        began_ns = self._recorder.now_ns()
        total = 0
        for number in range(_ADDED):
            total += number
        _written(_DOCUMENT)
        self._product.make()
        took_ns = self._recorder.now_ns() - began_ns
        self._recorder.sample(self._name, float(took_ns))
        self._count += 1
        self._spent_ns += took_ns
        if self._count % _TOLD_EVERY == 0 or self._interval_ns != INTERVAL_NS:
            self._recorder.sample(self._own, float(self._spent_ns))


class _Product:
    """Of a small matrix and a vector. No memory is taken for it, no random number, and no gradient.

    Not of two matrices: torch divides even the smallest of these among its threads, and where all
    CPUs are in use (by workers, by other ranks) one waits for the other for ten milliseconds.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._factor: Any = None
        if self._is_unseen():  # made now, before memory is looked at
            kind = {"dtype": torch.float32, "device": "cpu"}
            self._factor = torch.full((_SIZE, _SIZE), 0.5, **kind)
            self._vector = torch.full((_SIZE,), 0.5, **kind)
            self._made = torch.zeros((_SIZE,), **kind)

    def may_be_made(self) -> bool:
        return self._factor is not None and self._is_unseen()

    def make(self) -> None:
        multiply = self._torch.mv
        for _ in range(_PRODUCTS):
            multiply(self._factor, self._vector, out=self._made)

    def _is_unseen(self) -> bool:
        """Nobody would notice: no mode of the program (or ours) that sees every operator, and no
        profiler. Nor inference mode: what is made in there cannot be used outside."""
        torch = self._torch
        return not (
            torch._C._len_torch_dispatch_stack()
            or torch._C._len_torch_function_stack()
            or torch.is_inference_mode_enabled()
            or torch.autograd._profiler_enabled()
        )


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([key + ":" + _written(inner) for key, inner in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_written(inner) for inner in value]) + "]"
    return str(value)
