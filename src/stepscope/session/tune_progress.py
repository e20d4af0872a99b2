"""How far tuning is: a line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from stepscope.session.troubles import say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["TuneProgress"]


class TuneProgress:
    """A context; `tell` from within. The bar shows how much of the budget is used."""

    def __init__(self, budget_s: float, *, quiet: bool = False) -> None:
        self._budget_s, self._quiet = budget_s, quiet
        self._began_s = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> TuneProgress:
        if not self._quiet and sys.stderr is not None and sys.stderr.isatty():
            self._open()
        return self

    def _open(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        from stepscope.report.console import console_on

        # Once a second: what is measured shares the machine with us.
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            console=console_on(sys.stderr),
            refresh_per_second=1,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("tuning", total=self._budget_s, left=self._left())

    def tell(self, text: str) -> None:
        if self._quiet:
            return
        if self._bar is None or self._task is None:
            say(f"{text} ({self._left()})")
            return
        used_s = time.monotonic() - self._began_s
        self._bar.update(self._task, description=text, completed=used_s, left=self._left())

    def _left(self) -> str:
        left_s = max(0.0, self._budget_s - (time.monotonic() - self._began_s))
        minutes, seconds = divmod(round(left_s), 60)
        return f"at most {minutes} min {seconds:02d} s left"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
