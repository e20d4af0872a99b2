"""What an analyser concludes, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from stepscope.model.change import Change
from stepscope.model.kinds import KINDS, BottleneckType
from stepscope.model.plain import AnyNumber, Factor, Known, Share

__all__ = ["Finding", "Location", "Recommendation"]


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
        """Amdahl: how much faster the loop would be if this cost nothing; None when it is all, and
        for what costs bytes, not time."""
        return 1.0 / (1.0 - self.share) if self.share < 1.0 and not self.is_of_memory else None

    @property
    def is_of_memory(self) -> bool:
        """Its share is one of bytes."""
        return KINDS[self.kind].group == "memory"
