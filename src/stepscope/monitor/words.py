"""Numbers in titles and evidence, as people read them."""

from __future__ import annotations

__all__ = ["amount", "duration", "percent", "size"]


def percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.1f} %"


def duration(seconds: float) -> str:
    """
    >>> duration(0.0123), duration(42.0), duration(600.0), duration(7200.0), duration(200_000.0)
    ('12.3 ms', '42 s', '10 min', '2.0 h', '2.3 days')
    """
    if seconds < 1.0:
        return f"{seconds * 1000:.3g} ms"
    for unit, each, most in (("s", 1.0, 120.0), ("min", 60.0, 7200.0)):
        if seconds < most:
            return f"{seconds / each:.3g} {unit}"
    hours = seconds / 3600.0
    return f"{hours:.1f} h" if hours < 48.0 else f"{hours / 24.0:.1f} days"


def size(count: float) -> str:
    """
    >>> size(512), size(19.3e6), size(1.1e9)
    ('512 B', '19 MB', '1.1 GB')
    """
    for unit, each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= each:
            return (
                f"{count / each:.1f} {unit}" if count < 10 * each else f"{count / each:,.0f} {unit}"
            )
    return f"{count:.0f} B"


def amount(value: float, unit: str) -> str:
    """A value of a metric. unit: as in its table.

    >>> amount(0.5, "s"), amount(2e9, "By"), amount(71.0, "Cel"), amount(0.934, "1")
    ('500 ms', '2.0 GB', '71 °C', '0.934')
    """
    if unit == "s":
        return duration(value)
    if unit == "By":
        return size(value)
    shown = f"{value:.4g}"
    plain = {"Cel": "°C", "W": "W"}.get(unit, "")
    return f"{shown} {plain}" if plain else shown
