"""How much memory a step may take, as people say it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stepscope.errors import UsageError

__all__ = ["Budget", "budget_of"]

_UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*|%)\s*", re.IGNORECASE)


class Budget(NamedTuple):
    """One of the two is set."""

    bytes: int | None = None
    share: float | None = None  # of the peak without checkpoints

    def of(self, peak_bytes: int) -> int:
        """In bytes, for a model with that peak."""
        return self.bytes if self.bytes is not None else int(peak_bytes * (self.share or 1.0))


def budget_of(value: int | float | str | None = None, *, save: str | float | None = None) -> Budget:
    """`4GiB`, `3.5 GB`, `800MiB`, a number of bytes, or a share of the peak: `60%`, 0.6.
    `save`: what is to be saved of the peak instead: `40%`, 0.4."""
    if (value is None) == (save is None):
        raise UsageError(
            "Say how much memory a step may take (4GiB, 60%), or how much to save (40%)."
        )
    if save is not None:
        share = _share(save)
        if not 0.0 < share < 1.0:
            raise UsageError(f"{save!r} cannot be saved: give a share between 0 % and 100 %.")
        return Budget(share=1.0 - share)
    if isinstance(value, float) and 0.0 < value <= 1.0:
        return Budget(share=value)
    if isinstance(value, str) and value.strip().endswith("%"):
        share = _share(value)
        if not 0.0 < share <= 1.0:
            raise UsageError(f"{value!r} is no share of the peak: give one up to 100 %.")
        return Budget(share=share)
    size = _size(value) if isinstance(value, str) else int(value or 0)
    if size <= 0:
        raise UsageError(f"{value!r} is no amount of memory: give one as 4GiB or 800MiB.")
    return Budget(bytes=size)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    unit = found.group(2).lower() if found else None
    if found is None or unit not in _UNITS:
        raise UsageError(f"{text!r} is no amount of memory: give one as 4GiB, 800MiB or 60%.")
    return int(float(found.group(1)) * _UNITS[unit])


def _share(value: str | float) -> float:
    if not isinstance(value, str):
        return float(value)
    found = _SIZE.fullmatch(value)
    if found is None or found.group(2) not in ("%", ""):
        raise UsageError(f"{value!r} is no share: give one as 40%.")
    number = float(found.group(1))
    return number / 100 if found.group(2) == "%" else number
