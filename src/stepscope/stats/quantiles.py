"""Order statistics."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["median", "quantile", "quantiles"]


def quantiles(values: Iterable[float], shares: Iterable[float]) -> list[float]:
    """The values below which the given shares of all values lie; [] when there are none.

    >>> quantiles([10, 20, 30, 40], [0.0, 0.5, 1.0])
    [10.0, 25.0, 40.0]
    """
    ordered = sorted(values)
    if not ordered:
        return []
    return [_at(ordered, share * (len(ordered) - 1)) for share in shares]


def quantile(values: Iterable[float], share: float) -> float | None:
    """The value below which a share of all values lies; None when there are none."""
    found = quantiles(values, (share,))
    return found[0] if found else None


def median(values: Iterable[float]) -> float | None:
    return quantile(values, 0.5)


def _at(ordered: list[float], position: float) -> float:
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
