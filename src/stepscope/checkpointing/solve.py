"""The choice of segments with the least recomputing whose peak fits (decision 014)."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from stepscope.checkpointing.candidates import Candidate, disjoint
from stepscope.errors import MissingExtraError
from stepscope.model.checkpoint_plan import RECOMPUTED

__all__ = ["Choice", "Problem", "require_solver"]

_MIB: Final = float(1 << 20)  # bytes and ms side by side: numbers of like size for the solver
_WORTH: Final = 1.03  # what runs of neighbours have to gain before they are preferred to modules
_GAP: Final = 0.002  # how far from the best a choice may be, as a share of its recompute time
_PEAK_SECONDS: Final = 4.0  # for the smallest peak, which is asked for once
_SECONDS: Final = 0.5  # for one choice; what was found by then counts


class Choice(NamedTuple):
    chosen: tuple[int, ...]  # of the candidates
    peak_bytes: int  # predicted
    recompute_ms: float


class _Level(NamedTuple):
    """A stretch of the step in which the same candidates can be absent."""

    bytes: float  # the most that is live in it when nothing is recomputed
    absent: Mapping[int, int]  # candidate → how many of its calls can be


class _Again(NamedTuple):
    """A recomputation, in the stretch that leads up to it."""

    bytes: float  # live at its start when nothing is recomputed
    level: int
    candidate: int
    more: float  # live when it is done, beyond that


def require_solver() -> None:
    """MissingExtraError where there is none."""
    if find_spec("scipy") is None:
        raise MissingExtraError("scipy, which finds the best plan,", "plan")


class Problem:
    """What every choice leads to, and the best one for a budget."""

    def __init__(self, peaks: Sequence[int], lives: Sequence[int], found: list[Candidate]) -> None:
        """peaks: highest live bytes by window. lives: live bytes at the mark that ends it."""
        self._candidates = found
        self._levels: list[_Level] = []
        self._again: list[_Again] = []
        self._cut(peaks, lives)
        self._exclusive = _exclusive(found)
        self._smallest: Choice | None = None

    def evaluate(self, chosen: Iterable[int]) -> Choice:
        """Where two of them exclude each other the answer means nothing."""
        at = tuple(sorted(int(one) for one in chosen))
        taken = [
            sum(self._candidates[one].saved_bytes * level.absent.get(one, 0) for one in at)
            for level in self._levels
        ]
        peak = max(level.bytes - less for level, less in zip(self._levels, taken, strict=True))
        for one in self._again:
            if one.candidate in at:
                own = self._candidates[one.candidate].saved_bytes
                peak = max(peak, one.bytes - (taken[one.level] - own) + one.more)
        return Choice(at, round(peak), sum(self._candidates[one].recompute_ms for one in at))

    def least_time(self, budget_bytes: int) -> Choice | None:
        """None: no choice fits."""
        nothing = self.evaluate(())
        if nothing.peak_bytes <= budget_bytes:
            return nothing
        found = [one for one in self._answers(budget_bytes) if one.peak_bytes <= budget_bytes]
        if found:
            # The first one stays with modules: another has to be worth its runs.
            return min(found, key=lambda one: one.recompute_ms * (1 if one is found[0] else _WORTH))
        smallest = self.least_peak()
        return smallest if smallest.peak_bytes <= budget_bytes else None

    def least_peak(self) -> Choice:
        """The smallest peak that any choice reaches."""
        if self._smallest is None:
            seeds = (self.evaluate(self._finest(mode)) for mode in RECOMPUTED)
            found = [self.evaluate(()), *seeds, *self._answers(None, _PEAK_SECONDS)]
            self._smallest = min(found, key=lambda one: (one.peak_bytes, one.recompute_ms))
        return self._smallest

    def _finest(self, recompute: str) -> list[int]:
        """All that can be recomputed at once, in parts as small as possible."""
        of_mode = [
            at for at, one in enumerate(self._candidates) if one.segment.recompute == recompute
        ]
        order = sorted(of_mode, key=lambda at: self._candidates[at].size)
        return [order[at] for at in disjoint([self._candidates[at] for at in order])]

    def _answers(self, budget_bytes: int | None, seconds: float = _SECONDS) -> Iterator[Choice]:
        """With modules alone, which is quick, and with runs of neighbours too."""
        began = time.monotonic()
        modules = [at for at, one in enumerate(self._candidates) if one.segment.first is None]
        for allowed in (modules, range(len(self._candidates))):
            left_s = seconds - (time.monotonic() - began)
            if allowed and left_s > 0 and (allowed is modules or len(allowed) > len(modules)):
                x = self._solve(budget_bytes, frozenset(allowed), left_s)
                if x is not None:
                    yield self.evaluate(x)

    # ---- the program that is solved ----

    def _solve(
        self, budget_bytes: int | None, allowed: frozenset[int], seconds: float
    ) -> list[int] | None:
        """The chosen ones of those allowed; without a budget those with the smallest peak.

        Columns: the candidates (0 or 1), for each level what is absent in it (MiB), and the peak.
        Neighbouring levels differ in few candidates, so each is told by how it differs from the
        one before: rows stay short, and that is what makes it quick.
        """
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp

        count, levels = len(self._candidates), len(self._levels)
        peak = count + levels
        cost = np.zeros(peak + 1)
        if budget_bytes is None:
            cost[peak] = 1.0
        else:
            cost[:count] = [one.recompute_ms for one in self._candidates]
        lower, upper = np.zeros(peak + 1), np.full(peak + 1, np.inf)
        upper[:count] = [1.0 if at in allowed else 0.0 for at in range(count)]
        whole = np.zeros(peak + 1)
        whole[:count] = 1
        if budget_bytes is not None:
            upper[peak] = budget_bytes / _MIB
        rows, low, high = self._rows()
        result = milp(
            cost,
            integrality=whole,
            bounds=Bounds(lower, upper),
            constraints=LinearConstraint(rows, low, high),
            options={"mip_rel_gap": _GAP if budget_bytes is not None else 1e-4,
                     "time_limit": seconds},
        )  # fmt: skip
        if result.x is None:
            return None
        return [int(one) for one in np.flatnonzero(result.x[:count] > 0.5)]

    def _rows(self) -> tuple[Any, Any, Any]:
        from scipy.sparse import csr_matrix

        count = len(self._candidates)
        peak = count + len(self._levels)
        entries: list[tuple[int, int, float]] = []
        low: list[float] = []
        high: list[float] = []

        def add(row: Iterable[tuple[int, float]], least: float, most: float) -> None:
            entries.extend((len(low), column, value) for column, value in row)
            low.append(least)
            high.append(most)

        before: Mapping[int, int] = {}
        for at, level in enumerate(self._levels):
            column = count + at
            more = {
                one: level.absent.get(one, 0) - before.get(one, 0)
                for one in {**before, **level.absent}
            }
            changed = [(one, -times * self._mib(one)) for one, times in more.items() if times]
            same = [(column - 1, -1.0)] if at else []
            add([(column, 1.0), *same, *changed], 0.0, 0.0)
            add([(column, 1.0), (peak, 1.0)], level.bytes / _MIB, float("inf"))
            before = level.absent
        for one in self._again:
            own = one.more / _MIB + self._mib(one.candidate)
            row = [(count + one.level, 1.0), (peak, 1.0), (one.candidate, -own)]
            add(row, one.bytes / _MIB, float("inf"))
        for group in self._exclusive:
            add([(one, 1.0) for one in group], -float("inf"), 1.0)
        values, at_rows, at_columns = (
            [entry[2] for entry in entries],
            [entry[0] for entry in entries],
            [entry[1] for entry in entries],
        )
        shape = (len(low), peak + 1)
        return csr_matrix((values, (at_rows, at_columns)), shape=shape), low, high

    def _mib(self, candidate: int) -> float:
        return self._candidates[candidate].saved_bytes / _MIB

    # ---- what the step gives ----

    def _cut(self, peaks: Sequence[int], lives: Sequence[int]) -> None:
        changes: dict[int, Counter[int]] = {}  # by window: calls of candidates, more or fewer
        for at, one in enumerate(self._candidates):
            for windows in one.absent:
                changes.setdefault(windows.start, Counter())[at] += 1
                changes.setdefault(windows.stop, Counter())[at] -= 1
        absent: Counter[int] = Counter()
        level_of: list[int] = []
        for window, peak in enumerate(peaks):
            change = changes.get(window)
            if change is not None:
                absent = Counter(absent)
                absent.update(change)
                absent = Counter({at: times for at, times in absent.items() if times})
            if not self._levels or self._levels[-1].absent != absent:
                self._levels.append(_Level(float(peak), absent))
            else:
                last = self._levels[-1]
                self._levels[-1] = last._replace(bytes=max(last.bytes, float(peak)))
            level_of.append(len(self._levels) - 1)
        for at, one in enumerate(self._candidates):
            for rerun in one.reruns:
                level = level_of[rerun.mark]
                self._again.append(
                    _Again(float(lives[rerun.mark]), level, at, float(rerun.more_bytes))
                )


def _exclusive(found: list[Candidate]) -> list[tuple[int, ...]]:
    """Groups of which one at most can be chosen: those that cover the same call. Where ranges
    meet, all of them cover the first call of one of them, so only those are looked at."""
    begins = sorted({calls.start for one in found for calls in one.calls})
    covering: dict[int, list[int]] = {begin: [] for begin in begins}
    for at, one in enumerate(found):
        for calls in one.calls:
            first = bisect_left(begins, calls.start)
            for begin in begins[first : bisect_left(begins, calls.stop)]:
                covering[begin].append(at)
    groups = {tuple(dict.fromkeys(ats)) for ats in covering.values() if len(ats) > 1}
    return sorted(groups)
