"""Loops and what they used → findings. The first one is the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyze.compute import compute_finding, optimizer_finding
from stepscope.analyze.host import host_findings
from stepscope.analyze.input import input_findings
from stepscope.analyze.loop import Loop
from stepscope.analyze.resources import Resources
from stepscope.analyze.whole import Whole
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["findings"]


def findings(loops: Sequence[Loop], resources: Resources) -> list[Finding]:
    """What stands in the way of the loop, the largest first, and then the computation itself.

    Only what reaches its kind's moderate share is listed; [] without a loop.
    """
    whole = Whole([loop for loop in loops if loop.wall_ns], resources)
    if not whole.loops:
        return []
    everything = [*input_findings(whole), *host_findings(whole)]
    in_the_way = [f for f in everything if f.share >= KINDS[f.kind].moderate_share]
    optimizer = list(optimizer_finding(whole))
    if whole.share(Phase.OPTIMIZER) > whole.share(Phase.FORWARD, Phase.BACKWARD):
        in_the_way += optimizer
        optimizer = []
    in_the_way.sort(key=lambda finding: -finding.share)
    return [*in_the_way, compute_finding(whole, everything), *optimizer]
