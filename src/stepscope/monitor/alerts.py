"""An incident and what a closer look found → the notices that people get."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from stepscope.model.alert import Alert, AlertState
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.model.watching import Explained
from stepscope.monitor.incidents import Incident
from stepscope.monitor.words import duration

__all__ = ["Identity", "Moment", "joined", "raised", "resolved"]

_LONGEST_TEXT: Final = 500
_UNKNOWN_KIND: Final = "threshold"  # a rule of the user's own may call it as it likes


class Identity(NamedTuple):
    """Whose alerts these are."""

    run: str
    host: str


class Moment(NamedTuple):
    """One time on both clocks: from it, those of the past are told on the wall's."""

    now_ns: int
    now_unix: float

    def unix(self, time_ns: int) -> float:
        return self.now_unix - (self.now_ns - time_ns) / 1e9


def raised(
    alert_id: str, incident: Incident, explained: Explained, whose: Identity, now: Moment
) -> Alert:
    """`incident.first` in times of the monotonic clock."""
    first = incident.first
    return Alert(
        id=alert_id,
        rule=first.rule,
        finding=_finding(incident, explained),
        state=AlertState.FIRING,
        run=whose.run,
        host=whose.host,
        began_unix=now.unix(first.began_ns),
        told_unix=now.now_unix,
        step=first.step,
        ranks=incident.ranks,
        metric=first.metric,
        value=_finite(first.value),
        limit=_finite(first.limit),
    )


def joined(alert: Alert, incident: Incident) -> Alert:
    """With what came to it since, and as bad as it has become."""
    severity = _share(max(alert.severity, incident.severity))
    evidence = alert.finding.evidence
    also = [line for line in _others(incident) if line not in evidence]
    if severity == alert.severity and incident.ranks == alert.ranks and not also:
        return alert
    finding = replace(alert.finding, severity=severity, evidence=(*evidence, *also))
    return replace(alert, finding=finding, ranks=incident.ranks)


def resolved(alert: Alert, ended_ns: int, now: Moment, *, with_the_run: bool = False) -> Alert:
    ended_unix = max(alert.began_unix, now.unix(ended_ns))
    last = f"It lasted {duration(ended_unix - alert.began_unix)}."
    if with_the_run:
        last = "It ended with the run."
    finding = replace(alert.finding, evidence=(*alert.finding.evidence, last))
    return replace(
        alert,
        finding=finding,
        state=AlertState.RESOLVED,
        told_unix=now.now_unix,
        ended_unix=ended_unix,
    )


def _finding(incident: Incident, explained: Explained) -> Finding:
    first = incident.first
    kind = next((k for k in (explained.kind, first.kind) if k in KINDS), _UNKNOWN_KIND)
    location = explained.location
    if location.rank is None and first.rank:
        location = replace(location, rank=first.rank)
    return Finding(
        kind=kind,
        title=first.title[:_LONGEST_TEXT],
        share=_share(first.share),
        severity=_share(incident.severity),
        confidence=_share(first.confidence),
        evidence=(*first.evidence, *explained.evidence, *_others(incident)),
        missing=(*first.missing, *explained.missing),
        location=location,
        measures=_measures(first.measures),
        recommendation=explained.recommendation,
    )


def _others(incident: Incident) -> list[str]:
    """What else was seen, and how often it was there before."""
    said = [f"Also: {title[:_LONGEST_TEXT]}." for title in incident.others]
    if incident.returns:
        times = "once" if incident.returns == 1 else f"{incident.returns} times"
        said.append(f"It came back {times} since it was last told.")
    return said


def _measures(measures: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in measures.items() if math.isfinite(value)}


def _finite(value: float | None) -> float | None:
    """JSON knows no other."""
    return value if value is not None and math.isfinite(value) else None


def _share(value: float) -> float:
    return min(1.0, max(0.0, value)) if math.isfinite(value) else 0.0
