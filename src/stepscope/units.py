"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["percent"]


def percent(share: float) -> str:
    """
    >>> percent(0.784), percent(0.034), percent(0.0004), percent(0.0)
    ('78 %', '3.4 %', '<0.1 %', '0 %')
    """
    if not share:
        return "0 %"
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{share * 100:.1f} %" if share < 0.0995 else f"{share * 100:.0f} %"
