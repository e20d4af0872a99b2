"""The headline of a run: what the loop mostly does, and the largest avoidable cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.units import percent

__all__ = ["headline"]

_MOST = 0.5  # only what takes more than half of the loop is what the loop is bound by
_BOUND_BY = {
    "input": "Input-bound",
    "compute": "Compute-bound",
    "host": "Host-bound",
    "ranks": "Communication-bound",
}


def headline(findings: Sequence[Finding]) -> Finding | None:
    """The finding about what takes most of the loop. Its title is the headline, its recommendation
    what to do first: that of the first finding.

    Without a loop it is the first finding itself. None: there are no findings.
    """
    costs = [one for one in findings if KINDS[one.kind].words]
    compute = next((one for one in costs if one.kind == "compute"), None)
    if compute is None:
        return findings[0] if findings else None
    most = max(costs, key=lambda one: one.share)
    waiting = [one for one in costs if KINDS[one.kind].group == "input"]
    waited = sum(one.share for one in waiting)
    if len(waiting) > 1 and waited > most.share:
        most = max(waiting, key=lambda one: one.share)
        title = _bound(f"waiting for input takes {percent(waited)} of the loop", most, waited)
        title = f"{title}, most of it {_cost(most)}"
    else:
        title = _bound(most.title, most, most.share)
    first = findings[0]
    if first.is_of_memory:  # it is about to end the run
        title = f"{first.title[:1].upper()}{first.title[1:].rstrip('.')}. {title}"
    elif most is compute and first is not compute:
        title = f"{percent(compute.share)} of the loop is model compute."
        title = f"{title} Largest avoidable cost: {_cost(first)}"
    return replace(most, title=title, recommendation=first.recommendation)


def _bound(title: str, finding: Finding, share: float) -> str:
    """The title, after "…-bound" where it takes more than half of the time."""
    if share <= _MOST:
        return title[:1].upper() + title[1:]
    start = title[:1] if title.startswith("Python") else title[:1].lower()
    return f"{_BOUND_BY[KINDS[finding.kind].group]}: {start}{title[1:]}"


def _cost(finding: Finding) -> str:
    return f"{KINDS[finding.kind].words} ({percent(finding.share)})"
