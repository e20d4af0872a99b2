"""Is the truth true? What a script says its fault costs, against the same script without it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.manifest import Case, Truth
from tests.faults.running import run_bare

__all__ = ["Verified", "verify"]

# Two runs on a shared machine differ by this much without any cause.
TOLERANCE = 0.12


@dataclass(frozen=True, slots=True)
class Verified:
    """`stated`: by the script itself. By difference: of the loop's wall clock and CPU time."""

    case: Case
    strength: float
    stated: float | None
    wall_share: float
    cpu_share: float
    wall_s: float

    @property
    def agrees(self) -> bool:
        """
        A healthy script has nothing to agree about; a difference that is the truth must be one.

        A fault that keeps the training thread busy shows in its CPU time, which neighbours on the
        machine hardly change; one that makes it wait shows only in the wall clock.
        """
        if not self.case.faults:
            return True
        if self.stated is None:
            share = self.cpu_share if self.case.truth is Truth.CPU else self.wall_share
            return share > 0.05
        return min(abs(self.stated - s) for s in (self.wall_share, self.cpu_share)) <= TOLERANCE


def verify(case: Case, strength: float) -> Verified:
    """Off, on, on, off: a machine that grows slower over the four runs favours neither."""
    runs = [run_bare(case, strength, off=off) for off in (True, False, False, True)]
    off, on = (runs[0], runs[3]), (runs[1], runs[2])
    stated = None
    if case.truth is Truth.SCRIPT:
        stated = sum(sum(run.shares.values()) for run in on) / 2
    elif case.truth is Truth.GC:
        stated = sum(run.gc_s / run.wall_s for run in on) / 2
    return Verified(
        case,
        strength,
        stated,
        1 - sum(run.wall_s for run in off) / sum(run.wall_s for run in on),
        1 - sum(run.cpu_s for run in off) / sum(run.cpu_s for run in on),
        on[0].wall_s,
    )
