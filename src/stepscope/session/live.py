"""The live status line of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.analyze.fold import LoopFold
from stepscope.report.status import status_line
from stepscope.store.status import StatusPage

__all__ = ["live_text"]


def live_text(folds: Iterable[LoopFold], pages: Sequence[StatusPage]) -> str:
    """How far the foremost process is, and what was lost so far."""
    progress = max((fold.progress() for fold in folds), key=lambda each: each.steps, default=None)
    line = status_line(*progress) if progress is not None else status_line(0)
    lost = sum(page.lost + page.dropped for page in pages)
    return f" {line}  {lost:,} events lost" if lost else f" {line}"
