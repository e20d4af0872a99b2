"""The last thing that was profiled."""

from __future__ import annotations

import io
from functools import cached_property
from pathlib import Path

from stepscope.config import RUNS_FOLDER
from stepscope.model.summary import Summary
from stepscope.model.trace import Trace
from stepscope.session import inside as here
from stepscope.session.report import summarise_run
from stepscope.session.show import show_summary
from stepscope.store.rundir import find_run
from stepscope.store.summary import read_summary
from stepscope.store.trace import open_trace

__all__ = ["RecordedRun", "last_run"]


class RecordedRun:
    """A run folder and what stands in it. Printed, it is the report."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def summary(self) -> Summary:
        """Verdict, breakdown, findings, operations: as saved, or from the events so far."""
        return read_summary(self.path) or summarise_run(self.path)

    @property
    def trace(self) -> Trace:
        """All events, to be queried."""
        return open_trace(self.path)

    def report(self) -> str:
        """The report as text."""
        text = io.StringIO()
        show_summary(self.summary, text, self.path)
        return text.getvalue()

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return f"RecordedRun({str(self.path)!r})"


def last_run() -> RecordedRun:
    """What this process profiled; where it did not, the newest run in `runs`.

    RunNotFoundError: there is neither.
    """
    session = here.current()
    if session is None:
        return RecordedRun(find_run(Path(RUNS_FOLDER)))
    session.pull()
    return RecordedRun(session.run)
