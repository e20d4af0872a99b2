"""How much memory a step may take, as people say it."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.errors import UsageError
from stepscope.model.amounts import SHARES, read_amount, read_bytes

__all__ = ["Budget", "budget_of"]


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
    size = read_bytes(value) if isinstance(value, str) else int(value or 0)
    if size is None or size <= 0:
        raise UsageError(f"{value!r} is no amount of memory: give one as 4GiB, 800MiB or 60%.")
    return Budget(bytes=size)


def _share(value: str | float) -> float:
    if not isinstance(value, str):
        return float(value)
    share = read_amount(value, SHARES)
    if share is None:
        raise UsageError(f"{value!r} is no share: give one as 40%.")
    return share
