"""Figures as people read them, for evidence."""

from __future__ import annotations

from stepscope.units import percent

__all__ = ["bytes_text", "duration", "percent", "plural"]

_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def duration(ns: float) -> str:
    """
    >>> duration(412_300_000), duration(3_210_000), duration(12_340_000_000), duration(42_000)
    ('412 ms', '3.2 ms', '12.3 s', '42 µs')
    """
    if ns >= 1e10:
        return f"{ns / 1e9:.1f} s"
    if ns >= 1e9:
        return f"{ns / 1e9:.2f} s"
    if ns >= 1e7:
        return f"{ns / 1e6:.0f} ms"
    if ns >= 1e5:
        return f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e3:.0f} µs"


def bytes_text(count: float) -> str:
    """
    >>> bytes_text(12_300_000), bytes_text(800)
    ('12.3 MB', '800 B')
    """
    for unit, name in _BYTES:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def plural(count: int, thing: str) -> str:
    """
    >>> plural(1, "step"), plural(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
