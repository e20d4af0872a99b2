"""The live line. It loads nothing: it is made while the program trains."""

from __future__ import annotations

__all__ = ["status_line"]


def status_line(
    steps: int, steps_per_second: float | None = None, phase: str = "", share: float | None = None
) -> str:
    """What the run does now.

    >>> status_line(1234, 16.21, "input wait", 0.783)
    'stepscope  1,234 steps  16.2 steps/s  mostly input wait (78 %)'
    >>> status_line(0)
    'stepscope  no step yet'
    """
    if not steps:
        return "stepscope  no step yet"
    parts = ["stepscope", "1 step" if steps == 1 else f"{steps:,} steps"]
    if steps_per_second is not None:
        parts.append(f"{steps_per_second:.3g} steps/s")
    if phase:
        parts.append(f"mostly {phase}" + (f" ({share * 100:.0f} %)" if share is not None else ""))
    return "  ".join(parts)
