"""What the benchmarks share: interleaved rounds, paired comparison, and the JSON line at the end.

A machine is never quite quiet, so nothing is compared across time: what is compared is measured in
turns, each round gives one ratio, and the median of the ratios is the figure.
"""

from __future__ import annotations

import compileall
import gc
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Something we promised. `value` is None where it could not be measured: then it is not ok."""

    name: str
    value: float | None
    limit: float
    ok: bool


def at_most(name: str, value: float | None, limit: float) -> Target:
    return Target(name, value, limit, value is not None and value <= limit)


def at_least(name: str, value: float | None, limit: float) -> Target:
    return Target(name, value, limit, value is not None and value >= limit)


@dataclass(frozen=True)
class Result:
    """What a benchmark found. Its line is the last line of the benchmark's output."""

    name: str
    figures: Mapping[str, Any]
    targets: Sequence[Target] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        return all(target.ok for target in self.targets)

    def line(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "figures": rounded(self.figures),
                "targets": [rounded(asdict(target)) for target in self.targets],
                "ok": self.ok,
            }
        )


def rounded(value: Any) -> Any:
    """The same with every float cut to five digits that mean something."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


def summary(values: Sequence[float]) -> dict[str, float]:
    """The median, how far a value usually lies from it (1.48 × MAD: a σ), and the extremes."""
    middle = statistics.median(values)
    mad = statistics.median(abs(value - middle) for value in values)
    return {
        "median": middle,
        "spread": 1.4826 * mad,
        "low": min(values),
        "high": max(values),
        "rounds": len(values),
    }


def paired_ratios(values: Sequence[float], references: Sequence[float]) -> list[float]:
    """Each value against the reference that was measured next to it."""
    return [value / reference for value, reference in zip(values, references, strict=True)]


def turn(items: Sequence[T], number: int) -> list[T]:
    """The order of a round: another one is first each time, every second round runs backwards."""
    start = number % len(items) if items else 0
    order = [*items[start:], *items[:start]]
    return order[::-1] if number % 2 else order


def interleaved(
    subjects: Mapping[str, Callable[[], object]],
    rounds: int,
    after_each: Callable[[], object] = lambda: None,
) -> dict[str, list[int]]:
    """Nanoseconds of each subject in each round, in turns, after one round that does not count.

    `after_each` runs outside the measured time.
    """
    taken: dict[str, list[int]] = {name: [] for name in subjects}
    gc.collect()
    gc.disable()
    try:
        for number in range(-1, rounds):
            for name in turn(list(subjects), number):
                began = time.perf_counter_ns()
                subjects[name]()
                elapsed = time.perf_counter_ns() - began
                if number >= 0:
                    taken[name].append(elapsed)
                after_each()
    finally:
        gc.enable()
    return taken


def compile_package() -> None:
    """Compile stepscope as an installer would: a checkout may come without bytecode."""
    package = importlib.util.find_spec("stepscope")
    if package is not None and package.origin is not None:
        compileall.compile_dir(str(Path(package.origin).parent), quiet=2)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be: the first to the left, the others to the right."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )
