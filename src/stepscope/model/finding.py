"""What an analyser concludes, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from stepscope.model.change import Change
from stepscope.model.kinds import KINDS, BottleneckType
from stepscope.model.plain import AnyNumber, Factor, Known, Share

__all__ = ["CPU_WAIT_SHARE", "Finding", "Location", "Recommendation", "gain_between"]

CPU_WAIT_SHARE = "cpu_wait_share"  # among the measures: of the loop, in findings of its own
# How far a share may be off: this part of the cost, or of what is left where that is less. At a
# half of the loop that is 5 points.
SHARE_DOUBT = 0.1


def gain_between(least: float, most: float) -> tuple[float, float]:
    """How much faster a loop is without between `least` and `most` (below 1) of its time, with the
    doubt of a share.

    >>> [round(end, 2) for end in gain_between(0.5, 0.5)]
    [1.82, 2.22]
    """
    low = 1.0 - least + SHARE_DOUBT * min(least, 1.0 - least)
    high = 1.0 - most - SHARE_DOUBT * min(most, 1.0 - most)
    return 1.0 / low, 1.0 / high


@dataclass(frozen=True, slots=True)
class Location:
    """Where: as much of it as was measured. What is None is not known."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    layer: str | None = None
    op: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to change. `expected_speedup`: (low, high) factor on the whole loop; None: not known.

    changes: those that `stepscope tune` can make for it without an edit, the most promising first.
    """

    title: str
    action: str
    expected_speedup: tuple[Factor, Factor] | None = None
    risk: str = ""
    changes: tuple[Change, ...] = ()

    @property
    def automatic(self) -> bool:
        """`stepscope tune` can apply it, and need not ask: the results stay what they are."""
        return any(not change.alters for change in self.changes)


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, what it costs and how sure that is.

    share: of the loop's wall clock (0.6: six tenths of the time went there); where the kind is one
    of memory, of the bytes that the process held or may hold.
    severity: 0 to 1, from the share against the kind's thresholds.
    confidence: 0 to 1, from how well the evidence separates this cause from others.
    """

    kind: Annotated[str, Known(tuple(KINDS))]
    title: str
    share: Share
    severity: Share
    confidence: Share
    evidence: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    location: Location = Location()
    library: Location = Location()  # the function of a package below it that takes the time
    measures: Mapping[str, AnyNumber] = field(default_factory=dict)
    recommendation: Recommendation | None = None

    @property
    def bottleneck_type(self) -> BottleneckType:
        return KINDS[self.kind].bottleneck_type

    @property
    def max_speedup(self) -> float | None:
        """Amdahl: how much faster the loop would be at most if this cost nothing; None when it is
        all, and for what costs bytes, not time."""
        saved = self.saved
        return gain_between(saved, saved)[1] if saved < 1.0 and not self.is_of_memory else None

    @property
    def saved(self) -> float:
        """The part of the loop that goes with it: its share, and of the waiting for a CPU, which
        has findings of its own, the part that fell into it."""
        waited = self.measures.get(CPU_WAIT_SHARE, 0.0)
        return min(1.0, self.share / (1.0 - waited)) if waited < 1.0 else 1.0

    @property
    def is_of_memory(self) -> bool:
        """Its share is one of bytes."""
        return KINDS[self.kind].group == "memory"
