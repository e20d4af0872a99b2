"""What an optimisation in a running program changed, what that was measured to give, and why it was
kept or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepscope.model.strict_json import strict_json
from stepscope.model.trial import Speedup

__all__ = ["LEAST_GAIN", "Optimization", "StepCosts"]

LEAST_GAIN = 1.05  # times as fast: less is not worth a change


class StepCosts(NamedTuple):
    """What training takes for a batch, beside getting it: seconds of the wall clock, and of CPUs
    (more than the former where several threads compute)."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, kw_only=True)
class Optimization:
    """One attempt.

    target: "data loading", "preprocessing", "memory", "cpu" or "gpu"; subject: of what, by name.
    kept: it is in effect, or was returned; `reason` says why, or why not.
    predicted: how many times as fast it was expected to be; None: nothing was predicted.
    before, after: what was measured, by name and unit (`batch_s`, `rss_bytes`).
    tried: everything that was measured on the way, in words → seconds; None: it failed.
    undo: how to take it back; "" where nothing was changed.
    """

    target: str
    subject: str = ""
    kept: bool = False
    change: str = ""
    reason: str = ""
    predicted: float | None = None
    measured: Speedup | None = None
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    tried: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    undo: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return dict(strict_json(vars(self)))

    def __str__(self) -> str:
        of = f" of {self.subject}" if self.subject else ""
        verdict = f"{self.change}: kept" if self.kept else "as it was"
        return f"{self.target}{of}: {verdict}. {self.reason}"
