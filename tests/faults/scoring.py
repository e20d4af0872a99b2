"""Findings against the truth: right or wrong, and by how much."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tests.faults.manifest import Fault
from tests.faults.running import Seen

__all__ = ["Score", "by_kind", "by_share", "by_strength", "confusions", "figures", "score"]


@dataclass(frozen=True, slots=True)
class Score:
    """`located` and `error_points`: one entry for each fault of the script."""

    seen: Seen
    head: str  # kind of the first finding; "" where there is none
    right: bool
    located: tuple[bool, ...]
    error_points: tuple[float, ...]

    @property
    def healthy(self) -> bool:
        return not self.seen.case.faults

    @property
    def share(self) -> float:
        return sum(self.seen.shares.values())


def score(seen: Seen) -> Score:
    faults, findings = seen.case.faults, seen.findings
    first = [finding["kind"] for finding in findings[: max(1, len(faults))]]
    head = first[0] if first else ""
    right = set(first) == set(seen.case.kinds) if faults else head in ("", "compute")
    return Score(
        seen,
        head,
        right,
        tuple(_located(fault, findings) for fault in faults),
        tuple(_error(fault, seen) for fault in faults),
    )


def _finding(kind: str, findings: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((finding for finding in findings if finding["kind"] == kind), None)


def _located(fault: Fault, findings: list[dict[str, Any]]) -> bool:
    finding = _finding(fault.kind, findings)
    return finding is not None and any(_is_at(finding["location"], p) for p in fault.places)


def _is_at(location: dict[str, Any], place: str) -> bool:
    """A qualified name and its last part are the same function: `Photos.jitter`, `jitter`."""
    file, function = place.split(":")
    if not location["file"] or not location["function"]:
        return False
    same_file = PurePath(location["file"]).match(f"scripts/{file}")
    given = str(location["function"])
    same = given == function or function.endswith(f".{given}") or given.endswith(f".{function}")
    return same_file and same


def _error(fault: Fault, seen: Seen) -> float:
    """In points; a kind that was not found states nothing, so it errs by all of the share."""
    finding = _finding(fault.kind, seen.findings)
    stated = finding["share"] if finding else 0.0
    return 100 * abs(float(stated) - seen.shares[fault.kind])


def figures(scores: list[Score]) -> dict[str, float | int | None]:
    faulty = [s for s in scores if not s.healthy]
    healthy = [s for s in scores if s.healthy]
    located = [one for s in faulty for one in s.located]
    errors = [one for s in faulty for one in s.error_points]
    return {
        "faulty": len(faulty),
        "healthy": len(healthy),
        "top1": _mean([s.right for s in faulty]),
        "location": _mean(located),
        "false_alarms": sum(not s.right for s in healthy),
        "share_error_points": round(statistics.median(errors), 2) if errors else None,
    }


def by_kind(scores: list[Score]) -> dict[str, dict[str, float | int | None]]:
    kinds = sorted({kind for s in scores for kind in s.seen.case.kinds})
    return {kind: figures([s for s in scores if kind in s.seen.case.kinds]) for kind in kinds}


def by_strength(scores: list[Score]) -> dict[str, dict[str, float | int | None]]:
    levels = sorted({s.seen.strength for s in scores if not s.healthy})
    return {
        f"{level:g}": figures([s for s in scores if not s.healthy and s.seen.strength == level])
        for level in levels
    }


def by_share(scores: list[Score]) -> dict[str, dict[str, float | int | None]]:
    """Detection by what the fault really costs."""
    edges = [0.0, 0.1, 0.2, 0.4, 0.6, 1.01]
    found = {}
    for low, high in itertools.pairwise(edges):
        within = [s for s in scores if not s.healthy and low <= s.share < high]
        if within:
            found[f"{100 * low:.0f}–{min(100, 100 * high):.0f} %"] = figures(within)
    return found


def confusions(scores: list[Score]) -> Counter[tuple[str, str]]:
    """(what it is, what was said), for what was wrong."""
    return Counter(
        ("+".join(s.seen.case.kinds) or "healthy", s.head or "nothing")
        for s in scores
        if not s.right
    )


def _mean(values: list[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
