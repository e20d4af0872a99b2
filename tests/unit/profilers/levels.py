"""A session at one level, pickled to the standard output: `python levels.py basic`."""

from __future__ import annotations

import pickle
import sys
import time


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(20_000))  # the hottest line


def main(level: str) -> None:
    from stepscope import BottleneckProfiler, BottleneckProfilerConfig, BottleneckType
    from stepscope.session import inside

    config = BottleneckProfilerConfig(
        profiling_level=level,  # type: ignore[arg-type]
        enable_memory_tracking=False,
    )
    profiler = BottleneckProfiler(config)
    profiler.start_profiling_session("level")
    with profiler.profile_operation("work", BottleneckType.CPU_COMPUTATION):
        burn(0.3)
    session = profiler.stop_profiling_session()
    sys.stdout.buffer.write(pickle.dumps((session, inside._hooked)))


if __name__ == "__main__":
    main(sys.argv[1])
