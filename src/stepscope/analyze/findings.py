"""Evidence → findings: what the time of the loop goes to, each moment counted for one cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from stepscope.analyze.between import device_sync, logging_io, python_in_loop
from stepscope.analyze.communication import communication, communication_loss
from stepscope.analyze.compute import compute, optimizer
from stepscope.analyze.dispatch import host_overhead
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.host import checkpoint_save, gc, transfer, validation
from stepscope.analyze.input import input_findings
from stepscope.analyze.judge import severity
from stepscope.analyze.library_code import with_library
from stepscope.analyze.loop import Loop
from stepscope.analyze.machine import busy_machine, gil, gil_loss, oversubscription, swap
from stepscope.analyze.memory import memory_findings
from stepscope.analyze.numerics import denormals, double_precision, layout, single_precision
from stepscope.analyze.pulled_input import iterable_input
from stepscope.analyze.recompute import recompute
from stepscope.analyze.resources import Resources
from stepscope.analyze.warm_up import steady
from stepscope.analyze.whole import Whole
from stepscope.model.details import Details
from stepscope.model.finding import CPU_WAIT_SHARE, Finding
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["findings"]

URGENT = 0.7  # the severity from which memory is about to end the run
CERTAIN = 0.9  # the confidence from which a leak counts as proved: it grows until memory is full

Analyser = Callable[[Evidence], Finding | None]

# Waiting for a CPU: the phases are given without it (Whole), so nothing is claimed from them.
_FOR_CPU: tuple[Analyser, ...] = (busy_machine, oversubscription)
# Time in which the training thread could not run. The other causes share what is left.
_KEPT_WAITING: tuple[Analyser, ...] = (gil, communication, swap)
_AROUND: tuple[Analyser, ...] = (
    iterable_input,
    python_in_loop,
    logging_io,
    device_sync,
    validation,
    checkpoint_save,
    gc,
    transfer,
)
# Faults in how the model computes.
_WITHIN: tuple[Analyser, ...] = (host_overhead, double_precision, denormals, recompute)
# Nothing is wrong here, but the computation could be cheaper.
_CHEAPER: tuple[Analyser, ...] = (optimizer, layout, single_precision)


def findings(
    loops: Sequence[Loop], resources: Resources, details: Details | None = None
) -> list[Finding]:
    """What the loop loses time to, the most expensive first, then the computation itself, then
    what could make that cheaper, then memory. Memory that will end the run comes first.

    Only what reaches its kind's moderate share is listed. Shares are those of the loop after its
    warm-up, and disjoint: they add up to the part of it that is explained. [] without a loop.
    """
    whole = Whole([steady(loop) for loop in loops if loop.wall_ns], resources)
    if not whole.loops:
        return []
    evidence = Evidence(whole, details or Details())
    cheaper = _found(_CHEAPER, evidence)
    avoidable = [f for f in cheaper if _is_worth_a_change(evidence, f)]
    cheaper = [f for f in cheaper if f not in avoidable]
    around = [*input_findings(evidence), *_found((*_AROUND, *_WITHIN), evidence), *avoidable]

    for_cpu = _found(_FOR_CPU, evidence)
    lock = gil_loss(evidence)
    lost_in: dict[str, Mapping[Phase, float]] = {
        "communication": communication_loss(evidence),
        "gil": lock.by_phase if lock is not None else {},
    }
    for finding in around:
        if finding.measures.get("plain_iterable"):  # no span of a loader shows this input
            lost_in[finding.kind] = {Phase.PYTHON_BETWEEN: finding.share}
    budget = _Budget(whole, lost_in)
    claimed = [*budget.claim(_found(_KEPT_WAITING, evidence)), *budget.claim(around)]
    costs = _largest_first(f for f in claimed if _is_worth_attention(f))
    budget = _Budget(whole, lost_in)  # what is too small to be listed stays with the computation
    waited = sum(f.share for f in for_cpu)
    costs = _beside_waiting(budget.claim(costs), waited)
    costs = _largest_first([*costs, *(f for f in for_cpu if _is_worth_attention(f))])
    claimed += for_cpu
    cheaper = [f for f in budget.claim(cheaper) if _is_worth_attention(f)]
    cheaper = _beside_waiting(cheaper, waited)
    computing = compute(evidence, budget.left(*KINDS["compute"].phases), claimed)

    memory = memory_findings(evidence)
    urgent = [f for f in memory if _ends_the_run(f)]
    later = [f for f in memory if f not in urgent]
    found = [*urgent, *costs, computing, *cheaper, *later]
    return [with_library(evidence, finding) for finding in found]


def _found(analysers: Iterable[Analyser], evidence: Evidence) -> list[Finding]:
    found = (analyse(evidence) for analyse in analysers)
    return [finding for finding in found if finding is not None]


def _is_worth_attention(finding: Finding) -> bool:
    return finding.share >= KINDS[finding.kind].moderate_share


def _ends_the_run(finding: Finding) -> bool:
    is_leak = finding.kind == "leak" and finding.confidence >= CERTAIN
    return finding.severity >= URGENT or (is_leak and _is_worth_attention(finding))


def _is_worth_a_change(evidence: Evidence, finding: Finding) -> bool:
    """True for what would save much. For an optimizer: it takes more than the model, or takes much
    and updates parameters one by one."""
    much = finding.share >= KINDS[finding.kind].high_share
    if finding.kind != "optimizer":
        return much
    whole = evidence.whole
    more = whole.share(Phase.OPTIMIZER) > whole.share(Phase.FORWARD, Phase.BACKWARD)
    return more or (much and finding.measures.get("one_by_one") == 1.0)


def _beside_waiting(found: Iterable[Finding], waited: float) -> list[Finding]:
    """`waited`: the share of the loop that findings about waiting for a CPU have."""
    if not waited:
        return list(found)
    return [replace(f, measures={**f.measures, CPU_WAIT_SHARE: waited}) for f in found]


def _largest_first(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: -finding.share)


class _Budget:
    """The shares of the phases, of which each finding takes its part.

    lost_in: by kind, how much it lost in each phase, where that was measured. Other kinds take from
    all of their phases alike.
    """

    def __init__(self, whole: Whole, lost_in: Mapping[str, Mapping[Phase, float]]) -> None:
        self._left = {phase: whole.share(phase) for phase in Phase}
        self._lost_in = lost_in

    def left(self, *phases: Phase) -> float:
        return sum(self._left[phase] for phase in phases)

    def claim(self, found: Iterable[Finding]) -> list[Finding]:
        """The findings with what their phases have left for them, the largest served first."""
        served = []
        for finding in _largest_first(found):
            kind = KINDS[finding.kind]
            lost = self._lost_in.get(finding.kind) or {
                phase: self._left[phase] for phase in kind.phases or tuple(Phase)
            }
            total = sum(lost.values())
            part = min(1.0, finding.share / total) if total else 0.0
            share = 0.0
            for phase, most in lost.items():
                taken = min(self._left[phase], most * part)
                self._left[phase] -= taken
                share += taken
            served.append(
                replace(
                    finding,
                    share=share,
                    title=kind.title(share),
                    severity=severity(finding.kind, share),
                )
            )
        return served
