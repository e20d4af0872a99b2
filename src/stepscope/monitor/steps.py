"""What rules ask of a step."""

from __future__ import annotations

from stepscope.model.phases import Phase
from stepscope.model.watching import StepSeen

__all__ = ["longest_phase", "own_s"]


def own_s(seen: StepSeen) -> float:
    """What it took, without our own closer looks."""
    return (seen.duration_ns - seen.phases_ns.get(Phase.PROFILING, 0)) / 1e9


def longest_phase(seen: StepSeen) -> str:
    """ "" where nothing is known of its phases."""
    return max(seen.phases_ns, key=lambda phase: seen.phases_ns[phase], default="")
