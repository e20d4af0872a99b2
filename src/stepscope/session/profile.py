"""The engine behind one profiler: its operations, and their metrics read from the trace."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from stepscope.analyze.measure import Asked, measure
from stepscope.analyze.operations import OperationUse
from stepscope.collect.imports import when_imported
from stepscope.errors import NoResultsError, StepscopeError, UsageError
from stepscope.model.lines import LineProfile
from stepscope.model.metrics import PerformanceMetrics
from stepscope.session.block import Block
from stepscope.session.energy import EnergyMeter
from stepscope.session.extras import Energy, Extra, FastMemory, Flops, FullRun, GpuPeaks
from stepscope.session.inside import inside
from stepscope.session.lines import Lines
from stepscope.session.wishes import Wishes

__all__ = ["Profile", "shared_profile"]

MOST_OPERATIONS = 10_000  # names of one profiler; what comes later is counted together
OTHERS = "(other operations)"
_FAST_SHARE, _FASTEST_S = 20, 0.005  # leaks: memory is sampled that much more often
_numbers = itertools.count(1)

_ALL = 1 << 40
_EXACT = ("calls", "failed", "wall_ns", "user_ns", "system_ns", "shortest_ns", "longest_ns")
Run = AbstractContextManager[Any]


class Profile:
    """`maker` gives what makes runs of an operation; `metrics` what all of them took."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._number = next(_numbers)
        self._session = inside(wishes.hooks)
        self._flops = Flops(self._session) if wishes.flops else None
        self._energy = EnergyMeter(self._session, wishes) if wishes.energy else None
        self._lines = Lines(self._session, wishes.lines_interval_s) if wishes.lines else None
        self._extras = self._make_extras()
        self.makers: dict[str, Callable[[], Run]] = {}  # by name; `maker` fills it
        self._operations: dict[str, Any] = {}
        followers = [one for one in (self._energy, self._lines) if one is not None]
        weakref.finalize(self, self._session.forget, f"{self._number}/", followers).atexit = False
        if wishes.gpu and "torch" not in sys.modules:
            when_imported("torch", _reconsiderer(self), self._session.recorder.failed)

    def _reconsider(self, _: object) -> None:
        """torch is there now, and may show GPUs: runs from now on look at their memory."""
        with self._session.lock:
            self._extras = self._make_extras()
            self.makers.clear()

    def _make_extras(self) -> tuple[Extra, ...]:
        wishes, session = self._wishes, self._session
        extras: list[Extra] = []
        if wishes.leaks:
            interval_s = max(_FASTEST_S, wishes.interval_s / _FAST_SHARE)
            extras.append(FastMemory(session, interval_s))
        if wishes.gpu and (cuda := GpuPeaks.cuda()) is not None:
            extras.append(GpuPeaks(session, cuda))
        if wishes.energy:
            extras.append(Energy(session))
        if self._flops is not None:
            extras.append(self._flops)
        if self._lines is not None:
            extras.append(self._lines)
        return tuple(extras)

    def identity(self, name: str) -> str:
        """Names of files may hold what is no UTF-8, which cannot be recorded as it is."""
        return f"{self._number}/{name.encode('utf-8', 'backslashreplace').decode()}"

    def maker(self, name: Any) -> Callable[[], Run]:
        """What makes runs of that operation; the same one every time."""
        if not isinstance(name, str) or not name:
            raise UsageError(f"An operation is named by a text that is not empty, not {name!r}.")
        with self._session.lock:
            if name not in self._operations and len(self._operations) >= MOST_OPERATIONS:
                name = OTHERS
            if name not in self.makers:
                self.makers[name] = self._make(name)
            return self.makers[name]

    def _make(self, name: str) -> Callable[[], Run]:
        identity, wishes = self.identity(name), self._wishes
        keep = _ALL if wishes.lines else wishes.keep  # every begin needs its end
        operation = self._session.operation(identity, keep, wishes.interval_s)
        self._operations[name] = operation
        if not self._extras:
            return operation.run
        return partial(_full_run, self._session, identity, operation.run, self._extras)

    def block(self, name: str) -> Block:
        """A run that is looked at by itself."""
        run = self.maker(name)()
        return Block(self._session, self.identity(name), run)

    # ---- results ----

    def names(self) -> list[str]:
        """Operations that ran, or run, in the order in which they first began."""
        operations = dict(self._operations)  # other threads may add some
        began = {name: one.totals()["first_start_ns"] for name, one in operations.items()}
        return sorted((name for name in began if began[name]), key=began.__getitem__)

    def last(self) -> str:
        """The operation that ended last; of those that run where none has ended."""
        if not self.names():
            raise NoResultsError(
                "Nothing was profiled yet: run something within `with profiler.profile(name):`."
            )
        ended = {name: self._operations[name].totals()["last_end_ns"] for name in self.names()}
        return max(ended, key=ended.__getitem__)

    def metrics(self, name: str) -> PerformanceMetrics:
        """NoResultsError: nothing was profiled under that name."""
        self._refuse_unknown(name)
        totals = self._operations[name].totals()
        if not totals["calls"]:  # it runs for the first time
            use = self._session.use_sampled(self.identity(name), totals["first_start_ns"])
            return self.measured(use)
        use = self._session.use(self.identity(name)) or OperationUse(self.identity(name))
        # The same figures as in the trace, and there even when the disk is full.
        exact: dict[str, Any] = {key: totals[key] for key in _EXACT}
        return self.measured(replace(use, **exact))

    def line_profile(self, name: str) -> LineProfile:
        """Where the time of an operation went, by line; UsageError: nobody asked for it."""
        if self._lines is None:
            raise UsageError(
                "Lines were not profiled: make the profiler with enable_line_profiling=True."
            )
        self._refuse_unknown(name)
        return self._lines.profile(self.identity(name))

    def _refuse_unknown(self, name: str) -> None:
        if name not in self.names():
            known = ", ".join(map(repr, self.names()[:20])) or "nothing yet"
            raise NoResultsError(f"There are no metrics of {name!r}. Profiled: {known}.")

    def measured(self, use: OperationUse) -> PerformanceMetrics:
        """The metrics of what was used."""
        wishes = self._wishes
        asked = Asked(
            gpu=wishes.gpu,
            leaks=wishes.leaks,
            flops=wishes.flops,
            flops_reason="" if self._flops is None else self._flops.reason(use.identity),
            peak_flops_per_s=_peak_flops_per_s() if use.flops else None,
            can_reset_peak=self._session.can_reset_peak,
            interval_s=wishes.interval_s,
        )
        metrics = measure(use, asked)
        metrics = replace(metrics, notes=(*metrics.notes, *self._remarks(use)))
        return metrics if self._energy is None else self._energy.added_to(metrics, use)

    def _remarks(self, use: OperationUse) -> Iterator[str]:
        if self._flops is not None and use.flops is not None:
            yield from (f"FLOPs: {note}." for note in self._flops.notes())
        lost = self._session.recorder.counters()["lost"]
        if lost:
            yield f"{lost:,} events could not be written: figures that were sampled are missing."

    def walls_s(self) -> dict[str, float]:
        """Operation → how long it took, all runs together."""
        return {name: self._operations[name].totals()["wall_ns"] / 1e9 for name in self.names()}

    def has_results(self) -> bool:
        """Whether any run has ended, with or without an exception."""
        return any(one.totals()["calls"] for one in list(self._operations.values()))


def _reconsiderer(profile: Profile) -> Callable[[object], None]:
    """A profiler that nobody has any more is not kept for the day that torch is imported."""
    found = weakref.ref(profile)

    def reconsider(module: object) -> None:
        here = found()
        if here is not None:
            here._reconsider(module)

    return reconsider


_shared: dict[Wishes, Profile] = {}


def shared_profile(wishes: Wishes) -> Profile:
    """One for all who want the same and do not keep their own: contexts, decorated functions."""
    found = _shared.get(wishes)
    if found is None:
        found = _shared.setdefault(wishes, Profile(wishes))
    return found


def _full_run(session: Any, identity: str, make: Callable[[], Run], extras: Any) -> FullRun:
    return FullRun(session, identity, make(), extras)


def _peak_flops_per_s() -> float | None:
    """Of this machine; None: it cannot be measured here."""
    from stepscope.collect.peak_flops import measure_peak_flops

    try:
        return measure_peak_flops().flops_per_s
    except StepscopeError:
        return None
