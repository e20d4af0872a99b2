"""What does a span cost?

One `with` block around nothing, in turns: with our span, with the cheapest context managers there
are, and with torch.profiler.record_function while no profiler runs.

    python benchmarks/spans.py
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from harness import Result, at_least, at_most, interleaved, paired_ratios, table
from stepscope.record.core import core, core_reason
from stepscope.record.twin import TwinCore

BLOCK = 4_000  # spans in a block: below the size of a ring, which is drained after each block

Loop = Callable[[], None]


class Null:
    """The least a context manager can be in Python."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def entering(context: AbstractContextManager[Any, Any]) -> Loop:
    """A block of entries of one context manager."""
    blocks = range(BLOCK)

    def loop() -> None:
        for _ in blocks:
            with context:
                pass

    return loop


def making_record_function() -> None:
    """record_function as it is written: made anew for each entry."""
    record_function = torch.profiler.record_function
    for _ in range(BLOCK):
        with record_function("x"):
            pass


def empty_loop() -> None:
    for _ in range(BLOCK):
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description="What does a span cost?")
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()

    twin = TwinCore()
    subjects: dict[str, Loop] = {
        "empty loop": empty_loop,
        "C lock": entering(threading.Lock()),
        "contextlib.nullcontext": entering(nullcontext()),
        "empty Python context": entering(Null()),
        "span": entering(core.span(core.intern("x"))),
        "span, Python twin": entering(twin.span(twin.intern("x"))),
        "record_function, kept": entering(torch.profiler.record_function("x")),
        "record_function, made": making_record_function,
    }
    dropped = core.counters()["dropped"]

    def drain() -> None:
        core.drain()
        twin.drain()

    taken = interleaved(subjects, arguments.rounds, drain)
    if core.counters()["dropped"] != dropped or twin.counters()["dropped"]:
        print("events were dropped: this would not be the cost of a span", file=sys.stderr)
        return 1

    each_ns = {name: statistics.median(values) / BLOCK for name, values in taken.items()}
    cheaper = statistics.median(paired_ratios(taken["record_function, kept"], taken["span"]))
    print(table(("", "ns"), [(name, f"{value:.0f}") for name, value in each_ns.items()]))
    figures = {
        "core": core_reason,
        "native": core.name == "native",
        "ns": each_ns,
        "record_function_to_span": cheaper,
    }
    targets = [
        at_most("a native span, ns", each_ns["span"] if figures["native"] else None, 200.0),
        at_least("times cheaper than record_function", cheaper if figures["native"] else None, 5.0),
    ]
    print(Result("spans", figures, targets).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
