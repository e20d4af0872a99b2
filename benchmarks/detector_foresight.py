"""How well it is foretold when memory is full: by ours, and by a line through all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from detector_memory import MemorySeries
from harness import progress
from stepscope.stats.forecast import REACH, LimitForecast
from stepscope.stats.quantiles import quantile


def memory_figures(leaking: Sequence[MemorySeries], others: Sequence[MemorySeries]) -> Any:
    progress(f"memory: {len(leaking)} leaks, {len(others)} series that are none")
    ours = [_error_at_half(series) for series in leaking]
    line = [_line_error_at_half(series) for series in leaking]
    false = [(series.kind, *_false_alarms(series)) for series in others]
    return {
        "leaks": len(leaking),
        "no_leaks": len(others),
        "error": _errors([error for error, _ in ours]),
        "interval_holds": sum(holds for _, holds in ours) / len(ours),
        "false": sum(mine for _, mine, _ in false),
        "false_kinds": sorted({kind for kind, mine, _ in false if mine}),
        "least_squares": {"error": _errors(line), "false": sum(line for _, _, line in false)},
    }


def _errors(errors: Sequence[float]) -> dict[str, float | None]:
    """A leak for which nothing was said counts as infinitely wrong; worst: of the others."""
    told = [error for error in errors if error < math.inf]
    return {
        "median": quantile(told, 0.5),
        "within_15_percent": sum(error <= 0.15 for error in errors) / len(errors),
        "worst": max(told, default=None),
        "not_told": float(len(errors) - len(told)),
    }


def _error_at_half(series: MemorySeries) -> tuple[float, bool]:
    watched = LimitForecast()
    for time_s, value in _until_half(series):
        watched.update(time_s, value)
    told = watched.get(series.limit)
    if told is None:
        return math.inf, False
    left_s = _left_s(series)
    return abs(told.seconds - left_s) / left_s, told.low_s <= left_s <= told.high_s


def _line_error_at_half(series: MemorySeries) -> float:
    times_s, values = zip(*_until_half(series), strict=True)
    told_s, left_s = least_squares_s(list(times_s), list(values), series.limit), _left_s(series)
    return math.inf if told_s is None else abs(told_s - left_s) / left_s


def _until_half(series: MemorySeries) -> list[tuple[float, float]]:
    half = series.half_of_life + 1
    return list(zip(series.times_s[:half], series.values[:half], strict=True))


def _left_s(series: MemorySeries) -> float:
    return series.times_s[series.ends_at or 0] - series.times_s[series.half_of_life]


def _false_alarms(series: MemorySeries) -> tuple[bool, bool]:
    """Whether ours, and a line through all of it, ever say that it is going to be full, asked a
    hundred times; the line within the same reach."""
    watched, every = LimitForecast(), max(1, len(series.values) // 100)
    ours = line = False
    for at, (time_s, value) in enumerate(zip(series.times_s, series.values, strict=True)):
        watched.update(time_s, value)
        if at % every or at < 24:
            continue
        ours = ours or watched.get(series.limit) is not None
        told_s = least_squares_s(series.times_s[: at + 1], series.values[: at + 1], series.limit)
        line = line or (told_s is not None and told_s < REACH * (time_s - series.times_s[0]))
    return ours, line


def least_squares_s(times_s: list[float], values: list[float], limit: float) -> float | None:
    """What is usually done: a line through all of it; seconds until it reaches the limit."""
    size = len(values)
    if size < 2:
        return None
    mean_t, mean_v = sum(times_s) / size, sum(values) / size
    squares = sum((t - mean_t) ** 2 for t in times_s)
    products = zip(times_s, values, strict=True)
    slope = sum((t - mean_t) * (v - mean_v) for t, v in products) / squares
    if slope <= 0:
        return None
    return max(0.0, (limit - mean_v) / slope + mean_t - times_s[-1])
