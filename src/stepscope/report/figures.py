"""The key figures of a cell, in words."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.cell import Cell
from stepscope.model.finding import Recommendation
from stepscope.report.units import factor

__all__ = ["advice", "figures", "heading", "memory_text", "seconds_text", "speedup"]


def heading(cell: Cell) -> str:
    """What ran: the name, and the steps of its loop."""
    parts = [f"stepscope · {cell.name}"]
    if cell.steps.count:
        parts.append("1 step" if cell.steps.count == 1 else f"{cell.steps.count:,} steps")
    if cell.steps.per_second is not None:
        parts.append(f"{cell.steps.per_second:.3g} steps/s")
    if cell.error:
        parts.append(f"partial: {cell.error} ended it")
    return " · ".join(parts)


def figures(cell: Cell) -> Iterator[tuple[str, str]]:
    """(what, how much); what was not measured is left out."""
    metrics = cell.metrics
    if metrics.execution_time is not None:
        yield "wall", seconds_text(metrics.execution_time)
    if metrics.cpu_time is not None:
        of = "" if metrics.cpu_usage is None else f" ({metrics.cpu_usage:.0f} % of the CPUs)"
        yield "CPU", f"{seconds_text(metrics.cpu_time)}{of}"
    if metrics.peak_ram_mb is not None:
        began = metrics.initial_ram_mb
        since = "" if began is None else f" (began at {memory_text(began)})"
        yield "peak RAM", f"{memory_text(metrics.peak_ram_mb)}{since}"
    if metrics.gpu_usage is not None:
        yield "GPU", f"{metrics.gpu_usage:.0f} % busy"
    if metrics.peak_gpu_mb is not None:
        yield "peak GPU memory", memory_text(metrics.peak_gpu_mb)


def advice(cell: Cell) -> Recommendation | None:
    """What to do about the first thing that was in the way."""
    return cell.findings[0].recommendation if cell.findings else None


def speedup(given: Recommendation) -> str:
    """
    >>> speedup(Recommendation("", "", (1.27, 2.0)))
    'expected 1.27× to 2.00× as fast'
    >>> speedup(Recommendation("", "", (1.5, 1.5)))
    'expected 1.50× as fast'
    """
    if given.expected_speedup is None:
        return ""
    low, high = (factor(one) for one in given.expected_speedup)
    return f"expected {low} as fast" if low == high else f"expected {low} to {high} as fast"


def memory_text(mb: float) -> str:
    """
    >>> memory_text(348.24), memory_text(2458.0)
    ('348 MB', '2.4 GB')
    """
    return f"{mb / 1024:.1f} GB" if mb >= 1000 else f"{mb:.0f} MB"


def seconds_text(seconds: float) -> str:
    """
    >>> seconds_text(2.5), seconds_text(0.0403)
    ('2.50 s', '40.3 ms')
    """
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
