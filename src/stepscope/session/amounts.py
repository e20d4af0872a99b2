"""Sizes and times as they are written on a command line."""

from __future__ import annotations

from typing import Final

from stepscope.errors import UsageError
from stepscope.model.amounts import DURATIONS_S, read_amount, read_bytes

__all__ = ["disk_limit_bytes", "duration_s"]

_LEAST: Final = 20_000_000  # the first minutes and the newest have to find room


def disk_limit_bytes(text: str) -> int:
    """What a run may take on disk; 0: any. UsageError: that is no such size.

    >>> disk_limit_bytes("1GB"), disk_limit_bytes("0")
    (1000000000, 0)
    """
    if text.strip() == "0":
        return 0
    size = read_bytes(text)
    if size is None:
        raise UsageError(f"--max-disk {text!r} is no size: write 500MB or 1GiB; 0 is no limit.")
    if size < _LEAST:
        raise UsageError(f"--max-disk {text!r} is not possible: 20MB is the least, 0 is no limit.")
    return size


def duration_s(option: str, text: str) -> float:
    """Above 0. UsageError: that is no such time.

    >>> [duration_s("--budget", text) for text in ("90s", "10m", "1.5h", "30")]
    [90.0, 600.0, 5400.0, 30.0]
    """
    found = read_amount(text, DURATIONS_S)
    if found is None or found <= 0.0:
        raise UsageError(f"{option} {text!r} is no time: write 90s, 10m or 1h.")
    return found
