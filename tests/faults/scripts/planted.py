"""
What a script of the corpus says about its own fault: how strong it is, and what it cost.

    FAULT_STRENGTH  0 to 1: how strong the fault is (1 unless told)
    FAULT_OFF       set: the same training without the fault
    FAULT_TRUTH     where to write truth.json when training ends

Contexts are classes, so that no frame of this file is on the stack while the fault costs time.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch

off = bool(os.environ.get("FAULT_OFF"))
level = float(os.environ.get("FAULT_STRENGTH", "1"))  # with and without the fault alike
strength = 0.0 if off else level

_costs_s: dict[str, float] = {}
_places: dict[str, dict[str, str]] = {}


def scale(full: float) -> float:
    """So much of the fault: `full` at strength 1, nothing without the fault."""
    return full * strength


def amount(full: int, least: int = 1) -> int:
    """As `scale`, in whole things: at least `least` when the fault is on, 0 when it is off."""
    return 0 if off else max(least, round(full * strength))


def every(full: int) -> int:
    """Do it every so many steps: every `full` at strength 1, less often when weaker."""
    return round(full / strength) if strength else sys.maxsize


def times(action: Callable[[], object], seconds: float) -> int:
    """How often `action` fits into `seconds` at strength 1, as quick as the disk is now."""
    if off:
        return 0
    start = time.perf_counter()
    for _ in range(16):
        action()
    return max(1, round(scale(seconds) * 16 / (time.perf_counter() - start)))


def charge(kind: str, seconds: float) -> None:
    """`seconds` of the loop's wall clock went to the fault."""
    if not off:
        _costs_s[kind] = _costs_s.get(kind, 0.0) + seconds


class cost:  # noqa: N801
    """The block is the fault: its wall clock is the cost, the function around it is the place."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        if kind not in _places:
            code = sys._getframe(1).f_code
            _places[kind] = {"file": code.co_filename, "function": code.co_qualname}

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        charge(self.kind, time.perf_counter() - self.start)


class training:  # noqa: N801
    """
    The training loop: from before its first batch to after its last step.

    What was imported is frozen, so that it is not looked at by collections in the loop; not where
    these are the fault.
    """

    def __init__(self, freeze: bool = True) -> None:
        self.freeze = freeze

    def __enter__(self) -> training:
        # torch imports its compiler with the first optimizer: that is no part of the loop either.
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        gc.collect()
        if self.freeze:
            gc.freeze()
        _costs_s.clear()
        self.gc_s, self.gc_start = 0.0, 0.0
        gc.callbacks.append(self._collected)
        self.start, self.start_cpu = time.perf_counter(), time.thread_time()
        return self

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        wall_s = time.perf_counter() - self.start
        cpu_s = time.thread_time() - self.start_cpu
        gc.callbacks.remove(self._collected)
        target = os.environ.get("FAULT_TRUTH")
        if target and error is None:
            Path(target).write_text(json.dumps(self._truth(wall_s, cpu_s)))

    def _collected(self, phase: str, _: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self.gc_start = now
        else:
            self.gc_s += now - self.gc_start

    def _truth(self, wall_s: float, cpu_s: float) -> dict[str, object]:
        kinds = sorted(_costs_s, key=lambda kind: -_costs_s[kind])
        return {
            "kinds": kinds,
            "share": sum(_costs_s.values()) / wall_s,
            "shares": {kind: _costs_s[kind] / wall_s for kind in kinds},
            "location": _places.get(kinds[0]) if kinds else None,
            "strength": strength,
            "wall_s": wall_s,
            "cpu_s": cpu_s,
            "gc_s": self.gc_s,
        }
