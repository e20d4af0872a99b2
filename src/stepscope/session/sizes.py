"""Sizes as they are written on a command line."""

from __future__ import annotations

from typing import Final

from stepscope.checkpointing.budget import budget_of
from stepscope.errors import UsageError

__all__ = ["disk_limit_bytes"]

_LEAST: Final = 20_000_000  # the first minutes and the newest have to find room


def disk_limit_bytes(text: str) -> int:
    """What a run may take on disk; 0: any. UsageError: that is no such size.

    >>> disk_limit_bytes("1GB"), disk_limit_bytes("0")
    (1000000000, 0)
    """
    if text.strip() == "0":
        return 0
    size = budget_of(text).bytes
    if size is None or size < _LEAST:
        raise UsageError(f"--max-disk {text!r} is not possible: 20MB is the least, 0 is no limit.")
    return size
