"""Numbers as people read them."""

from __future__ import annotations

from stepscope.model.summary import StepsSummary
from stepscope.units import percent

__all__ = [
    "all_steps_text",
    "amount",
    "bytes_text",
    "duration",
    "factor",
    "percent",
    "steps_text",
    "warm_up_text",
]


def factor(times: float) -> str:
    return f"{times:.2f}×" if times < 10 else f"{times:.0f}×"


def duration(ms: float) -> str:
    """
    >>> duration(0.0123), duration(12.3), duration(431.2), duration(43_120.0)
    ('12 µs', '12.30 ms', '431 ms', '43.1 s')
    """
    if ms >= 10_000:
        return f"{ms / 1000:.1f} s"
    if ms >= 100:
        return f"{ms:,.0f} ms"
    return f"{ms:.2f} ms" if ms >= 0.1 or not ms else f"{ms * 1000:.2g} µs"


def bytes_text(size: float) -> str:
    """
    >>> bytes_text(512), bytes_text(19.3e6), bytes_text(1.1e9)
    ('512 B', '19 MB', '1.1 GB')
    """
    for unit, each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= each:
            return f"{size / each:.1f} {unit}" if size < 10 * each else f"{size / each:,.0f} {unit}"
    return f"{size:.0f} B"


def amount(value: float) -> str:
    """
    >>> amount(3.0), amount(0.25), amount(1234.0)
    ('3', '0.25', '1,234')
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def steps_text(count: int) -> str:
    return "1 step" if count == 1 else f"{count:,} steps"


def all_steps_text(steps: StepsSummary) -> str:
    """The steps of a loop. Under accumulation, how many passes of forward and backward they took.

    >>> all_steps_text(StepsSummary(25, micro_batches=200, found_by="optimizer"))
    '25 optimizer steps of 200 passes'
    """
    if steps.found_by != "optimizer" or steps.micro_batches < 2 * steps.count:
        return steps_text(steps.count)
    taken = steps_text(steps.count).replace(" ", " optimizer ")
    return f"{taken} of {steps.micro_batches:,} passes"


def warm_up_text(steps: int, ms: float, wall_ms: float) -> str:
    """
    >>> warm_up_text(2, 3000.0, 12_000.0)
    'the first 2 steps took 3,000 ms (25 %): findings are about the steps after them'
    """
    first = "first step took" if steps == 1 else f"first {steps_text(steps)} took"
    part = percent(min(1.0, ms / wall_ms)) if wall_ms else "0 %"
    after = "it" if steps == 1 else "them"
    return f"the {first} {duration(ms)} ({part}): findings are about the steps after {after}"
