"""The engine behind CodeOptimizer.optimize_memory, _cpu and _gpu: switches of this process, tried
in turns with what they were, and put back where that is not proved to help."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stepscope.collect.cpus import usable_cpus
from stepscope.collect.loading import settle, undisturbed
from stepscope.collect.own_memory import rss_bytes
from stepscope.model.optimization import Optimization
from stepscope.session.proving import prove_for

__all__ = ["Switch", "Work", "free_memory", "optimize_gpu", "optimize_switch", "thread_switch"]

Work = Callable[[], object]
_NO_WORK = (
    "Not measured, so nothing was changed: profile a function with profile_preprocessing(func,"
    " data) before, or say what to measure with work=."
)


class Switch(NamedTuple):
    """A setting of this process. `choices`: what may be tried."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]
    choices: Sequence[Any]


class Switched(NamedTuple):
    record: Optimization
    undo: Callable[[], None] | None  # None: nothing was changed


def thread_switch() -> Switch | None:
    """How many threads torch computes an operator with; None: torch is not there."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    cpus = max(1, int(usable_cpus(os.getpid()) or 1))
    choices = sorted({1, max(1, cpus // 2), cpus})
    return Switch("torch.set_num_threads", torch.get_num_threads, torch.set_num_threads, choices)


def optimize_switch(
    target: str, switch: Switch | None, work: Work | None, timed: Callable[[Work], float]
) -> Switched:
    """The choice that was measured to be fastest for this work, proved against what it is."""
    base = Optimization(target=target)
    if switch is None:
        return Switched(replace(base, reason="torch is not imported: nothing was changed."), None)
    if work is None:
        return Switched(replace(base, reason=_NO_WORK), None)
    before = switch.read()
    try:
        with undisturbed(None):
            return _tried(base, switch, work, timed)
    except Exception as error:  # noqa: BLE001 - the work is the user's
        switch.write(before)
        why = f"Trying failed, so nothing was changed: {type(error).__name__}: {error}"
        return Switched(replace(base, reason=why[:500]), None)


def _tried(
    base: Optimization, switch: Switch, work: Work, timed: Callable[[Work], float]
) -> Switched:
    present = switch.read()

    def with_choice(choice: Any) -> float:
        switch.write(choice)
        return timed(work)

    tried = {
        choice: with_choice(choice) for choice in {present: 0, **dict.fromkeys(switch.choices)}
    }
    best = min(tried, key=tried.__getitem__)
    words = {f"{switch.name}({choice})": seconds for choice, seconds in tried.items()}
    told = replace(base, tried=words)
    if best == present:
        switch.write(present)
        return Switched(replace(told, reason=f"{switch.name}({present}) is the fastest."), None)
    told = replace(told, change=f"{switch.name}({best})")
    told, is_proved = prove_for(
        told, "work_s", lambda: with_choice(present), lambda: with_choice(best)
    )
    if not is_proved:
        switch.write(present)
        return Switched(replace(told, reason=f"Not proved: it was {told.measured}."), None)
    switch.write(best)
    record = replace(
        told,
        kept=True,
        reason=f"The work was measured to be {told.measured}.",
        undo=f"{switch.name}({present}), or undo()",
    )
    return Switched(record, lambda: switch.write(present))


def work_s(work: Work) -> float:
    """The median of some calls."""
    took_s = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        settle()
        took_s.append(time.perf_counter() - began)
    return statistics.median(took_s)


def optimize_gpu(work: Work | None, timed: Callable[[Work], float] = work_s) -> Switched:
    """cuDNN tries its algorithms for each new shape, and keeps the fastest. Never without a GPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        reason = "There is no GPU that torch can use: nothing was changed."
        return Switched(Optimization(target="gpu", reason=reason), None)
    cudnn = torch.backends.cudnn
    switch = Switch(
        "torch.backends.cudnn.benchmark",
        lambda: cudnn.benchmark,
        lambda value: setattr(cudnn, "benchmark", value),
        [True],
    )
    return optimize_switch("gpu", switch, work, timed)


def free_memory(collect_s: Callable[[], float] | None = None) -> Switched:
    """Collects garbage, gives free pages back, and has the collector pass over what is left, where
    that makes collections faster. What is there now and becomes garbage in cycles is then kept
    until `undo`."""
    measure = collect_s or _collection_s
    before_bytes = rss_bytes() or 0
    found = gc.collect()
    _trim()
    after_bytes = rss_bytes() or 0
    base = Optimization(
        target="memory",
        before={"rss_bytes": float(before_bytes)},
        after={"rss_bytes": float(after_bytes)},
        notes=(f"{found} objects were garbage; free pages were given back to the system.",),
    )
    if gc.get_freeze_count():
        return Switched(replace(base, reason="Objects are frozen already: left alone."), None)

    def unfrozen() -> float:
        gc.unfreeze()
        return measure()

    def frozen() -> float:
        gc.freeze()
        return measure()

    try:
        told = replace(base, change="gc.freeze()")
        told, is_proved = prove_for(told, "collection_s", unfrozen, frozen)
    finally:
        gc.unfreeze()
    if not is_proved:
        why = f"Not proved: collections were {told.measured}."
        return Switched(replace(told, reason=why), None)
    gc.freeze()
    old_ms, new_ms = (figures["collection_s"] * 1e3 for figures in (told.before, told.after))
    record = replace(
        told,
        kept=True,
        reason=f"A full collection took {old_ms:.1f} ms, and takes {new_ms:.2f} ms.",
        undo="gc.unfreeze(), or undo()",
    )
    return Switched(record, gc.unfreeze)


def _collection_s() -> float:
    began = time.perf_counter()
    gc.collect()
    return time.perf_counter() - began


def _trim() -> None:
    """Pages that malloc holds and nobody uses; where the C library has no such call, they stay."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        pass
