"""How far a capture is, on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stepscope.model.capture_request import CaptureRequest
from stepscope.session.capture_target import Target
from stepscope.store.status import read_status_pages

__all__ = ["show_progress"]


@contextmanager
def show_progress(
    target: Target, request: CaptureRequest, *, wanted: bool
) -> Iterator[Callable[[], None]]:
    """Gives what is to be called now and then; a bar over the steps where stderr is a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from stepscope.report.console import console_on

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    before, began_s = _steps(target), time.monotonic()
    with Progress(*columns, console=console_on(sys.stderr), transient=True) as bar:
        task = bar.add_task("waiting for the program", total=request.steps)

        def tick() -> None:
            made = min(_steps(target) - before, request.steps)
            passed_s = time.monotonic() - began_s
            text = f"capturing {target.run.name}, {passed_s:.0f} s"
            if made >= request.steps or passed_s > request.seconds:
                text = "reading what was captured"
            bar.update(task, completed=max(made, 0), description=text)

        yield tick


def _steps(target: Target) -> int:
    """Of the foremost process; what it says once a second."""
    pages = read_status_pages(target.status_folder)
    return max((page.step for page in pages), default=0)
