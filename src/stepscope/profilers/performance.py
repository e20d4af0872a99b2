"""PerformanceProfiler: time, CPU, memory and more of blocks of code."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from stepscope.config import MEMORY_INTERVAL_S
from stepscope.errors import UsageError
from stepscope.model.lines import LineProfile
from stepscope.model.metrics import MB, PerformanceMetrics
from stepscope.profilers.config import checked_number
from stepscope.session.keep import save_here
from stepscope.session.lines import lines_table
from stepscope.session.now import gpu_memory_share, nothing, rss_bytes
from stepscope.session.profile import Profile
from stepscope.session.wishes import Wishes

__all__ = ["PerformanceProfiler"]


class PerformanceProfiler:
    """Measures the blocks that you name.

    >>> profiler = PerformanceProfiler()
    >>> with profiler.profile("load"):
    ...     data = list(range(100_000))
    >>> profiler.get_metrics("load").calls
    1

    track_gpu: memory and use of the GPUs, where there are any.
    track_carbon: energy, as counted by the hardware, and grams of CO2; `country` or
        `grams_per_kwh` say from which grid, `cpu_watts` what the CPUs draw under full load, for
        machines without counters.
    detailed_memory: look for leaks; memory is sampled 20 times as often.
    memory_interval: seconds between two samples while an operation runs.
    enable_line_profiling: time per line of the functions that are called.
    estimate_flops: count the FLOPs of torch code; this slows small operators down.
    enabled: False costs next to nothing and measures nothing.
    """

    def __init__(
        self,
        track_gpu: bool = True,
        track_carbon: bool = False,
        detailed_memory: bool = False,
        memory_interval: float = MEMORY_INTERVAL_S,
        enable_line_profiling: bool = False,
        estimate_flops: bool = False,
        *,
        country: str | None = None,
        grams_per_kwh: float | None = None,
        cpu_watts: float | None = None,
        enabled: bool = True,
    ) -> None:
        seconds = "a number of seconds, more than 0 and at most 3600"
        interval_s = checked_number("memory_interval", memory_interval, 0.0, 3600.0, seconds)
        if cpu_watts is not None:
            watts = "a number of watts, more than 0 and at most 1,000,000"
            cpu_watts = checked_number("cpu_watts", cpu_watts, 0.0, 1e6, watts)
        switches = {
            "track_gpu": track_gpu,
            "track_carbon": track_carbon,
            "detailed_memory": detailed_memory,
            "enable_line_profiling": enable_line_profiling,
            "estimate_flops": estimate_flops,
            "enabled": enabled,
        }
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise UsageError(f"{name} is True or False, not {value!r}.")
        self._wishes = Wishes(
            gpu=track_gpu,
            leaks=detailed_memory,
            lines=enable_line_profiling,
            flops=estimate_flops,
            energy=track_carbon,
            interval_s=interval_s,
            country=country,
            grams_per_kwh=grams_per_kwh,
            cpu_watts=cpu_watts,
        )
        self._profile: Profile | None = Profile(self._wishes) if enabled else None
        self._makers: dict[str, Any] = {} if self._profile is None else self._profile.makers
        if not enabled:
            self.profile = nothing  # type: ignore[method-assign]

    def profile(self, operation_name: str) -> AbstractContextManager[Any]:
        """A context manager that measures what runs within it, under that name.

        Operations nest, repeat and run in several threads and tasks at once. An exception passes
        through; what was measured up to it counts, as a failed run.
        """
        try:
            return self._makers[operation_name]()  # type: ignore[no-any-return]
        except (KeyError, TypeError):
            make = self._engine.maker(operation_name)
        return make()

    @property
    def _engine(self) -> Profile:
        if self._profile is None:
            raise UsageError("This profiler was made with enabled=False: it has no results.")
        return self._profile

    def get_metrics(self, operation_name: str | None = None) -> PerformanceMetrics:
        """What all runs of an operation took together; without a name: of the one that ended last.

        Raises NoResultsError when nothing was profiled under that name.
        """
        name = self._engine.last() if operation_name is None else operation_name
        return self._engine.metrics(name)

    def get_timing_breakdown(self) -> dict[str, float]:
        """Operation → seconds of all its runs, in the order in which they first began."""
        return self._engine.walls_s() if self._profile is not None else {}

    def has_results(self) -> bool:
        """Whether any run has ended, with or without an exception."""
        return self._profile is not None and self._profile.has_results()

    def get_line_profile(self, operation_name: str | None = None) -> LineProfile:
        """Where the time of an operation went, by function and line, from samples of the stack of
        the thread that ran it (1,000 a second). Without a name: of the one that ended last."""
        name = self._engine.last() if operation_name is None else operation_name
        return self._engine.line_profile(name)

    def line_profile_table(self, operation_name: str | None = None, width: int = 100) -> str:
        """The same as a table for people, with the source of the lines."""
        name = self._engine.last() if operation_name is None else operation_name
        return lines_table(self._engine.line_profile(name), name, width)

    def get_current_memory(self) -> float:
        """What this process holds of the machine's memory now, in MB; nan: it cannot be read."""
        now = rss_bytes()
        return math.nan if now is None else now / MB

    def get_current_gpu_memory(self) -> float:
        """How much of the current GPU's memory is taken, from 0 to 1, by whomever.

        nan where no GPU is in use: it is neither more nor less than any threshold.
        """
        share = gpu_memory_share()
        return math.nan if share is None else share

    def save(self, path: str | Path | None = None, name: str = "") -> Path:
        """Keep everything that this process recorded as a run, for `stepscope report`.

        path: a new or empty folder; without one it goes to `runs`, under `name` or the time.
        """
        return save_here(path, name)
