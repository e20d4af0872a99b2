"""Long names, shortened."""

from __future__ import annotations

__all__ = ["shorten"]


def shorten(text: str, most: int = 90) -> str:
    """The end of a path and the beginning of a name say the most: the middle goes."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
