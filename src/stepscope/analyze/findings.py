"""Evidence → findings. The first one is the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from stepscope.analyze.between import device_sync, logging_io, python_in_loop
from stepscope.analyze.compute import compute, optimizer
from stepscope.analyze.dispatch import host_overhead
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.host import checkpoint_save, gc, transfer, validation
from stepscope.analyze.input import input_findings
from stepscope.analyze.judge import severity
from stepscope.analyze.loop import Loop
from stepscope.analyze.machine import gil, oversubscription, swap
from stepscope.analyze.memory import memory_findings
from stepscope.analyze.numerics import denormals, double_precision, layout, single_precision
from stepscope.analyze.recompute import recompute
from stepscope.analyze.resources import Resources
from stepscope.analyze.whole import Whole
from stepscope.model.details import Details
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["findings"]

URGENT = 0.7  # severity: from there on memory ends the run before long

Analyser = Callable[[Evidence], Finding | None]

_AROUND: tuple[Analyser, ...] = (
    python_in_loop,
    logging_io,
    device_sync,
    validation,
    checkpoint_save,
    gc,
    transfer,
    gil,
    oversubscription,
    swap,
)
# Of the computation: they lie within its time, and share it between them.
_WITHIN: tuple[Analyser, ...] = (host_overhead, double_precision, denormals, recompute)
# No faults, but it could be cheaper: they are in the way from a high share on.
_CHEAPER: tuple[Analyser, ...] = (optimizer, layout, single_precision)


def findings(
    loops: Sequence[Loop], resources: Resources, details: Details | None = None
) -> list[Finding]:
    """What stands in the way of the loop, the largest first, and then the computation itself;
    after it, what could make that cheaper, and what is wrong with memory (before all of it where
    memory ends the run).

    Only what reaches its kind's moderate share is listed; [] without a loop.
    """
    whole = Whole([loop for loop in loops if loop.wall_ns], resources)
    if not whole.loops:
        return []
    evidence = Evidence(whole, details or Details())
    around = [*input_findings(evidence), *_found(_AROUND, evidence)]
    within = _without_overlap(
        _found(_WITHIN, evidence), whole.share(Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    )
    everything = [*around, *within]
    in_the_way = [f for f in everything if f.share >= KINDS[f.kind].moderate_share]
    cheaper = list(_found(_CHEAPER, evidence))
    in_the_way += [f for f in cheaper if _is_in_the_way(evidence, f)]
    in_the_way.sort(key=lambda finding: -finding.share)
    cheaper = [f for f in cheaper if f not in in_the_way]
    cheaper = [f for f in cheaper if f.share >= KINDS[f.kind].moderate_share]
    of_memory = memory_findings(evidence)
    # What ends the run comes before what slows it down.
    urgent = [f for f in of_memory if f.severity >= URGENT]
    later = [f for f in of_memory if f not in urgent]
    return [*urgent, *in_the_way, compute(evidence, everything), *cheaper, *later]


def _found(analysers: Iterable[Analyser], evidence: Evidence) -> list[Finding]:
    found = (analyse(evidence) for analyse in analysers)
    return [finding for finding in found if finding is not None]


def _is_in_the_way(evidence: Evidence, finding: Finding) -> bool:
    """What would save much; an optimizer that takes more than the model, or much and updates
    parameters one by one."""
    much = finding.share >= KINDS[finding.kind].high_share
    if finding.kind != "optimizer":
        return much
    whole = evidence.whole
    more = whole.share(Phase.OPTIMIZER) > whole.share(Phase.FORWARD, Phase.BACKWARD)
    return more or (much and finding.measures.get("one_by_one") == 1.0)


def _without_overlap(found: Iterable[Finding], room: float) -> list[Finding]:
    """The largest first, and no more together than there is time."""
    kept = []
    for finding in sorted(found, key=lambda one: -one.share):
        share = min(finding.share, room)
        room -= share
        kept.append(replace(finding, share=share, severity=severity(finding.kind, share)))
    return kept
