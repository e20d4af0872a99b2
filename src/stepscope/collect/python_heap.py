"""The Python heap by line → `python.line_bytes` samples, where tracemalloc was asked for."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from typing import Final

from stepscope.model import names
from stepscope.model.own_code import is_ours
from stepscope.record.recorder import Recorder

__all__ = ["PythonLines"]

MOST_LINES: Final = 30


class PythonLines:
    """Starts tracemalloc, unless somebody has; `tell` on sampled steps."""

    def __init__(self) -> None:
        if not tracemalloc.is_tracing():
            tracemalloc.start()

    def tell(self, recorder: Recorder) -> None:
        """The lines that hold most. A snapshot takes about a second for ten million blocks."""
        name = recorder.intern(names.PYTHON_LINE)
        snapshot = tracemalloc.take_snapshot().filter_traces(
            (tracemalloc.Filter(False, tracemalloc.__file__),)
        )
        lines = (
            one for one in snapshot.statistics("lineno") if not is_ours(one.traceback[0].filename)
        )
        for statistic in islice(lines, MOST_LINES):
            frame = statistic.traceback[0]
            text = recorder.intern(f"{frame.lineno}\t{frame.filename}")
            recorder.sample(name, float(statistic.size), statistic.count, 0, text)
