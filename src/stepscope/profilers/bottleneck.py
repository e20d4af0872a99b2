"""BottleneckProfiler: sessions, operations within them, and what stood in the way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.errors import NoResultsError, UsageError
from stepscope.model.bottlenecks import BottleneckProfile, ProfilingSession
from stepscope.model.types import BottleneckType
from stepscope.profilers.bottleneck_config import AnyConfig, Configured
from stepscope.profilers.trackers import CPUTracker, GPUTracker, IOTracker, MemoryTracker
from stepscope.session.bottlenecks import BottleneckSession
from stepscope.session.keep import save_here
from stepscope.session.now import nothing
from stepscope.session.trackers import Tracking
from stepscope.session.written import ReportPaths, report_formats, report_plots, write_session

__all__ = ["BottleneckProfiler"]


class BottleneckProfiler(Configured):
    """Watches a stretch of a program and names what stands in its way.

    >>> profiler = BottleneckProfiler()
    >>> session_id = profiler.start_profiling_session("example")
    >>> with profiler.profile_operation("sum", BottleneckType.CPU_COMPUTATION):
    ...     total = sum(range(1_000_000))
    >>> session = profiler.stop_profiling_session()
    >>> session.operations["sum"].calls
    1

    Bottlenecks are operations that take more than `bottleneck_threshold` of the session by
    themselves, memory thresholds that were passed, and what the training loop within the session
    waited for, which needs no operation at all.

    The source document differs in these points, and this is what was built instead: its severities
    are constants (here: from how far and how long); it counts an operation's time again in every
    operation around it (here: an operation's own time); a full GPU is a "gpu_transfer" to it (here:
    memory_allocation); without a GPU it has zeros (here: None, and its zeros in the trackers); its
    `profiling_thread` and `stop_event` are parts of its monitoring loop (here: the recorder's
    sampler, which all profilers of a process share).
    """

    def __init__(self, config: AnyConfig | None = None) -> None:
        super().__init__(config)
        self.logger = logging.getLogger("stepscope")
        self._tracking = Tracking()
        self.memory_tracker = MemoryTracker(self._tracking)
        self.gpu_tracker = GPUTracker(self._tracking)
        self.cpu_tracker = CPUTracker(self._tracking)
        self.io_tracker = IOTracker(self._tracking)
        self._formats, self._plots = report_formats(), report_plots()
        self._session: BottleneckSession | None = None

    @property
    def is_profiling(self) -> bool:
        """Whether a session goes on."""
        return self._session is not None and self._session.is_open

    def start_profiling_session(self, session_name: str = "session") -> str:
        """Begin a session; its id is the name and the time. "" where profiling is switched off."""
        if not self.config.enabled:
            return ""
        if self.is_profiling:
            raise UsageError("A session goes on: call stop_profiling_session() first.")
        config = replace(self.config)  # what is assigned from now on is for the next session
        session = BottleneckSession(session_name, config)
        self._tracking.start(config.interval_s)
        session.open()
        self._session = session
        return self._session.session_id

    def stop_profiling_session(self) -> ProfilingSession:
        """End the session, and what it found."""
        if not self.is_profiling:
            raise UsageError("No session goes on: call start_profiling_session() first.")
        found = self._found.close()
        self._tracking.stop()
        return found

    def profile_operation(
        self, operation_name: str, operation_type: BottleneckType
    ) -> AbstractContextManager[Any]:
        """A context manager that measures what runs within it. Operations nest, repeat and run in
        several threads at once. Outside a session, the first one begins a session of its name.

        operation_type: what it is; `BottleneckType.register("my_type")` for one of your own.
        """
        if not self.is_profiling:
            if not self.config.enabled:
                return nothing  # type: ignore[no-any-return]
            self.start_profiling_session(operation_name)
        return self._found.operation(operation_name, operation_type)

    @property
    def _found(self) -> BottleneckSession:
        if self._session is None:
            raise NoResultsError(
                "Nothing was profiled yet: call start_profiling_session() first."
                if self.config.enabled
                else "Profiling is switched off (enabled=False): there are no results."
            )
        return self._session

    @property
    def current_session(self) -> ProfilingSession | None:
        """The session that goes on, as far as it is; else the last one; None: there was none."""
        return None if self._session is None else self._session.result()

    @property
    def bottlenecks(self) -> list[BottleneckProfile]:
        """Those of the current or last session, the worst first; live while it goes on."""
        return [] if self._session is None else list(self._session.result().bottlenecks)

    @property
    def performance_metrics(self) -> dict[str, float | None]:
        """Figures of the current or last session by name."""
        return {} if self._session is None else dict(self._session.result().performance_metrics)

    def get_bottleneck_summary(self) -> dict[str, Any]:
        """Plain JSON: `bottlenecks`, the worst first, counts by type, and the loop's verdict."""
        found = self._found.result()
        groups = found.by_type()
        return {
            "session_id": found.session_id,
            "duration_s": found.duration,
            "verdict": found.verdict,
            "total_bottlenecks": len(found.bottlenecks),
            "bottlenecks_by_type": {name: len(group) for name, group in groups.items()},
            "most_severe": found.bottlenecks[0].to_dict() if found.bottlenecks else None,
            "bottlenecks": [one.to_dict() for one in found.bottlenecks],
            "performance_metrics": dict(found.performance_metrics),
        }

    def generate_optimization_report(self, output_path: str | Path | None = None) -> ReportPaths:
        """Write the session as Markdown, JSON and a picture into a folder, and in the formats and
        plots that were added or that installed packages bring along; where they lie.

        Without matplotlib (`pip install 'stepscope[plots]'`) there are no pictures, and `png` is
        None.
        """
        folder = self.config.folder if output_path is None else Path(output_path)
        return write_session(self._found.result(), folder, self._formats, self._plots)

    def add_report_format(
        self, ending: str, render: Callable[[ProfilingSession], str | bytes]
    ) -> None:
        """Write reports in one format more: what `render` makes of the session goes to a file with
        that ending. A package offers one as an entry point of the group `stepscope.reports`."""
        self._formats.add(ending, render)

    def add_plot(self, name: str, draw: Callable[[ProfilingSession, Any], object]) -> None:
        """Write one picture more with each report: `draw` is given the session and an empty
        matplotlib Figure. A package offers one as an entry point of the group `stepscope.plots`."""
        self._plots.add(name, draw)

    def save(self, path: str | Path | None = None, name: str = "") -> Path:
        """Keep everything that this process recorded as a run, for `stepscope report`."""
        return save_here(path, name)
