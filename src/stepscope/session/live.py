"""The text of the live status line: how far the program is, how fast, and what it does most."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stepscope.analyze.fold import LoopFold
from stepscope.model.phases import Phase
from stepscope.store.status import StatusPage

__all__ = ["LiveText"]

_COST_SHARE = 0.005  # of one CPU: looking must not cost what it looks for


class LiveText:
    """Speaks of the time since it last spoke, where there were steps in it."""

    def __init__(self) -> None:
        self._steps = 0
        self._at_s = time.monotonic()
        self._began_s = self._at_s
        self._phases: dict[Phase, int] = {}
        self._phase = ""
        self._rate = ""
        self._next_phases_s = 0.0

    def text(self, folds: Sequence[LoopFold], pages: Sequence[StatusPage]) -> str:
        """One line without an end of line."""
        now_s = time.monotonic()
        fold = max(folds, key=lambda each: each.steps, default=None)
        parts = [f"stepscope {_clock(now_s - self._began_s)}"]
        if fold is None or not fold.steps:
            parts.append("no step yet")
            parts += [f"in {page.open_span}" for page in pages[:1] if page.open_span]
        else:
            self._update(fold, now_s)
            parts += [f"step {self._steps:,}", self._rate, self._phase]
        lost = sum(page.lost + page.dropped for page in pages)
        if lost:
            parts.append(f"{lost:,} events lost")
        return " " + " · ".join(part for part in parts if part)

    def _update(self, fold: LoopFold, now_s: float) -> None:
        if fold.steps > self._steps:
            rate = (fold.steps - self._steps) / max(now_s - self._at_s, 1e-3)
            # The first look meets all steps from before it: their time is not known.
            self._rate = f"{rate:,.1f} steps/s" if self._steps else ""
            self._steps, self._at_s = fold.steps, now_s
            if now_s >= self._next_phases_s:
                self._update_phase(fold)
                cost_s = time.monotonic() - now_s
                self._next_phases_s = now_s + cost_s / _COST_SHARE

    def _update_phase(self, fold: LoopFold) -> None:
        loop = fold.get()
        if loop is None:
            return
        before, self._phases = self._phases, {p: t.wall_ns for p, t in loop.phases.items()}
        spent = {phase: ns - before.get(phase, 0) for phase, ns in self._phases.items()}
        total = sum(spent.values())
        if total > 0:
            phase = max(spent, key=spent.__getitem__)
            self._phase = f"mostly {phase} ({spent[phase] / total:.0%})"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
