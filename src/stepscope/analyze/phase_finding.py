"""A finding about one phase: its share is the phase's, or a part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.analyze.evidence import Evidence, UserCode
from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.words import percent
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["code_text", "lies_in", "phase_finding", "place"]


def phase_finding(
    evidence: Evidence,
    kind: str,
    phases: Sequence[Phase],
    said: Sequence[str],
    *,
    share: float | None = None,
    separated: float = 1.0,
    missing: Sequence[str] = (),
    measures: Mapping[str, float] | None = None,
    location: Location | None = None,
) -> Finding:
    """`share`: None for all of the phases."""
    whole = evidence.whole
    cost = whole.share(*phases) if share is None else share
    return Finding(
        kind=kind,
        title=KINDS[kind].title(cost),
        share=cost,
        severity=severity(kind, cost),
        confidence=confidence(whole, *phases, separated=separated),
        evidence=(*said, *(code_text(evidence, *phases) if location is None else ())),
        missing=tuple(missing),
        location=place(evidence, *phases) if location is None else location,
        measures={"step_ms": whole.step_ns / 1e6, **(measures or {})},
    )


def place(evidence: Evidence, *phases: Phase) -> Location:
    """The user's line in which these phases spend most; empty without stacks."""
    code = evidence.user_code("main", *phases)
    return code.location if code is not None else Location()


def code_text(evidence: Evidence, *phases: Phase) -> tuple[str, ...]:
    return lies_in(evidence.user_code("main", *phases))


def lies_in(code: UserCode | None) -> tuple[str, ...]:
    """In words; none without such code."""
    if code is None:
        return ()
    at = code.location
    return (f"{percent(code.share)} of it lies in {at.function}, {at.file}:{at.line}.",)
