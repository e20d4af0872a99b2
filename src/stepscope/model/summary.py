"""The result of a run as a value: what summary.json says and what reports show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.errors import FormatError
from stepscope.model.change import Change
from stepscope.model.finding import Finding, Location, Recommendation
from stepscope.model.kinds import KINDS

if TYPE_CHECKING:
    from stepscope.model.metrics import PerformanceMetrics

__all__ = [
    "SCHEMA",
    "PhaseShare",
    "RankSummary",
    "StepsSummary",
    "Summary",
    "finding_from_dict",
    "finding_to_dict",
]

SCHEMA = 1


@dataclass(frozen=True)
class StepsSummary:
    """The steps of the loop. None where there was none."""

    count: int = 0
    median_ms: float | None = None
    fast_ms: float | None = None  # only one step in a hundred takes less: nothing disturbed it
    p95_ms: float | None = None
    longest_ms: float | None = None
    per_second: float | None = None
    skipped: int = 0  # steps whose optimizer a GradScaler left out
    micro_batches: int = 0
    # What a piece of work that is always the same took at its fastest (5 %): the machine's speed.
    reference_us: float | None = None
    found_by: str | None = None  # "optimizer", "backward", "loader" or "forward"


class PhaseShare(NamedTuple):
    """Time of one phase; over all phases `ms` adds up to the wall clock of the loop."""

    phase: str
    ms: float
    share: float
    cpu_ms: float | None  # how much of it the training thread ran; None: not measured


class RankSummary(NamedTuple):
    """The loop of one rank."""

    rank: int
    pid: int
    steps: int
    wall_ms: float
    median_ms: float | None
    shares: Mapping[str, float]  # by phase


@dataclass(frozen=True, slots=True)
class Summary:
    """The mappings are plain JSON; their keys are in store/summary.schema.json."""

    run: Mapping[str, Any]
    steps: StepsSummary = StepsSummary()
    wall_ms: float = 0.0
    startup_ms: float | None = None
    tail_ms: float | None = None
    breakdown: tuple[PhaseShare, ...] = ()
    findings: tuple[Finding, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    overhead: Mapping[str, Any] = field(default_factory=dict)
    coverage: Mapping[str, Any] = field(default_factory=dict)
    ranks: tuple[RankSummary, ...] = ()
    operations: tuple[PerformanceMetrics, ...] = ()  # blocks that the program named itself

    @property
    def verdict(self) -> Finding | None:
        """The first finding. None: no loop was found, and `coverage` says why."""
        return self.findings[0] if self.findings else None

    def to_dict(self) -> dict[str, Any]:
        findings = [finding_to_dict(finding) for finding in self.findings]
        return {
            "schema": SCHEMA,
            "run": dict(self.run),
            "steps": asdict(self.steps),
            "wall_ms": self.wall_ms,
            "startup_ms": self.startup_ms,
            "tail_ms": self.tail_ms,
            "breakdown": [part._asdict() for part in self.breakdown],
            "verdict": findings[0] if findings else None,
            "findings": findings,
            "memory": dict(self.memory),
            "resources": dict(self.resources),
            "overhead": dict(self.overhead),
            "coverage": dict(self.coverage),
            "ranks": [rank._asdict() for rank in self.ranks],
            "operations": [one.to_dict() for one in self.operations],
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Summary:
        """A saved summary again. Raises FormatError for what is none."""
        from stepscope.model.metrics import PerformanceMetrics  # 5 ms that the launcher saves

        try:
            return cls(
                run=dict(saved["run"]),
                steps=StepsSummary(**saved["steps"]),
                wall_ms=saved["wall_ms"],
                startup_ms=saved["startup_ms"],
                tail_ms=saved["tail_ms"],
                breakdown=tuple(PhaseShare(**part) for part in saved["breakdown"]),
                findings=tuple(finding_from_dict(one) for one in saved["findings"]),
                memory=dict(saved["memory"]),
                resources=dict(saved["resources"]),
                overhead=dict(saved["overhead"]),
                coverage=dict(saved["coverage"]),
                ranks=tuple(RankSummary(**rank) for rank in saved["ranks"]),
                operations=tuple(map(PerformanceMetrics.from_dict, saved.get("operations", []))),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(
                f"The summary is not whole ({error}): make it anew from the run's events."
            ) from error


def finding_to_dict(finding: Finding) -> dict[str, Any]:
    """Plain JSON: an entry of `findings` in summary.json."""
    advice = finding.recommendation
    return {
        "kind": finding.kind,
        "bottleneck_type": finding.bottleneck_type.value,
        "title": finding.title,
        "share": finding.share,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "location": asdict(finding.location),
        "evidence": list(finding.evidence),
        "missing": list(finding.missing),
        "measures": dict(finding.measures),
        # Computation is what training is for: it cannot be taken away.
        "max_speedup": None if finding.kind == "compute" else finding.max_speedup,
        "recommendation": None if advice is None else _advice_to_dict(advice),
    }


def _advice_to_dict(advice: Recommendation) -> dict[str, Any]:
    speedup = advice.expected_speedup
    return {
        "title": advice.title,
        "action": advice.action,
        "expected_speedup": None if speedup is None else list(speedup),
        "risk": advice.risk,
        "automatic": advice.automatic,
        "changes": [change.to_dict() for change in advice.changes],
    }


def finding_from_dict(saved: Mapping[str, Any]) -> Finding:
    """The finding again. Raises FormatError for a kind that is not known."""
    kind = saved["kind"]
    if kind not in KINDS:
        raise FormatError(
            f"The summary has a finding of an unknown kind, {kind}: upgrade stepscope."
        )
    return Finding(
        kind=kind,
        title=saved["title"],
        share=saved["share"],
        severity=saved["severity"],
        confidence=saved["confidence"],
        evidence=tuple(saved["evidence"]),
        missing=tuple(saved["missing"]),
        location=Location(**saved["location"]),
        measures=saved["measures"],
        recommendation=_advice_from_dict(saved["recommendation"]),
    )


def _advice_from_dict(saved: Mapping[str, Any] | None) -> Recommendation | None:
    if saved is None:
        return None
    speedup = saved["expected_speedup"]
    return Recommendation(
        title=saved["title"],
        action=saved["action"],
        expected_speedup=None if speedup is None else (speedup[0], speedup[1]),
        risk=saved["risk"],
        changes=tuple(map(Change.from_dict, saved.get("changes", []))),
    )
