"""Profiles an operation a million times and says what that took of memory and disk.

Alone in its process, so that nothing else moves its memory. One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import json
import time

from stepscope import PerformanceProfiler, last_run


def rss_bytes() -> int:
    """Read here and not by stepscope: it is what is being judged."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))


def largest_rise(values: list[int]) -> int:
    """From any of them to any later one; 0: it never rose."""
    return max(later - min(values[: at + 1]) for at, later in enumerate(values))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--settled", type=int, default=200_000)
    arguments = parser.parse_args()

    profiler = PerformanceProfiler()
    parts = 10
    rest = (arguments.operations - arguments.settled) // parts

    def profile(count: int) -> None:
        for _ in range(count):
            with profiler.profile("operation"):
                pass

    began_s = time.perf_counter()
    profile(arguments.settled)
    rss = [rss_bytes()]
    for _ in range(parts):
        profile(rest)
        rss.append(rss_bytes())
    lasted_s = time.perf_counter() - began_s
    calls = profiler.get_metrics("operation").calls
    folder = last_run().path
    print(
        json.dumps(
            {
                "operations": arguments.settled + parts * rest,
                "calls": calls,
                "seconds": lasted_s,
                "rss_bytes": rss,
                "growth_bytes": largest_rise(rss),
                "disk_bytes": sum(one.stat().st_size for one in folder.rglob("*.frames")),
            }
        )
    )


if __name__ == "__main__":
    main()
