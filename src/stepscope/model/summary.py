"""The result of a run as a value: what summary.json says and what reports show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Annotated, Any, NamedTuple, TypedDict

from stepscope.errors import FormatError
from stepscope.model.finding import Finding, Recommendation
from stepscope.model.headline import headline
from stepscope.model.meta import Meta
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.plain import Amount, Count, Shaped, Share, from_plain

__all__ = [
    "SCHEMA",
    "PhaseShare",
    "RankSummary",
    "StepsSummary",
    "Summary",
    "finding_to_dict",
]

SCHEMA = 1


@dataclass(frozen=True)
class StepsSummary:
    """The steps of the loop. None where there was none."""

    count: Count = 0
    median_ms: Amount | None = None
    fast_ms: Amount | None = None  # only one step in a hundred takes less: nothing disturbed it
    p95_ms: Amount | None = None
    longest_ms: Amount | None = None
    per_second: Amount | None = None
    skipped: Count = 0  # steps whose optimizer a GradScaler left out
    micro_batches: Count = 0
    # What a piece of work that is always the same took at its fastest (5 %): the machine's speed.
    reference_us: Amount | None = None
    found_by: str | None = None  # "optimizer", "backward", "loader" or "forward"
    # The first steps, where they took longer than all later ones: findings are judged without them.
    warm_up: Count = 0
    warm_up_ms: Amount = 0.0


class PhaseShare(NamedTuple):
    """Time of one phase; over all phases `ms` adds up to the wall clock of the loop."""

    phase: str
    ms: Amount
    share: Share
    cpu_ms: Amount | None  # how much of it the training thread ran; None: not measured


class RankSummary(NamedTuple):
    """The loop of one rank."""

    rank: Count
    pid: Count
    steps: Count
    wall_ms: Amount
    median_ms: Amount | None
    shares: Mapping[str, Share]  # by phase


class MemoryTotals(TypedDict, total=False):
    """The most that was held. None: not measured."""

    peak_rss_bytes: Amount | None
    peak_shared_bytes: Amount | None
    children_peak_rss_bytes: Amount | None
    host_total_bytes: Amount | None
    host_least_available_bytes: Amount | None
    gpus: list[Mapping[str, Any]]
    text: str


class ProcessTotals(TypedDict, total=False):
    """What processes used during the loop, as far as somebody reads it again."""

    cpu_cores: Amount | None
    peak_rss_bytes: Amount | None
    read_bytes_per_s: Amount | None
    write_bytes_per_s: Amount | None


class GpuTotals(TypedDict, total=False):
    index: Count
    busy_share: Amount | None
    memory_used_bytes: Amount | None
    memory_total_bytes: Amount | None
    temperature_celsius: float | None
    power_watts: float | None


class ResourceTotals(TypedDict, total=False):
    """What the loop used of the machine, as far as somebody reads it again."""

    cpu_count: Amount | None
    program: ProcessTotals
    children: ProcessTotals
    cpu_busy_share: Amount | None
    memory_total_bytes: Amount | None
    gpus: list[GpuTotals]


class OverheadTotals(TypedDict, total=False):
    """What stepscope cost."""

    hooks_ms: Amount | None
    hooks_share: Amount | None
    text: str


class CoverageTotals(TypedDict, total=False):
    """What was not seen, and why."""

    unexplained_share: Share
    dropped_events: Count
    lost_events: Count
    hook_failures: list[Mapping[str, Any]]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Summary:
    """The mappings are plain JSON; all their keys are in store/summary.schema.json."""

    run: Annotated[Mapping[str, Any], Shaped(Meta)]
    steps: StepsSummary = StepsSummary()
    wall_ms: Amount = 0.0
    startup_ms: Amount | None = None
    tail_ms: Amount | None = None
    breakdown: tuple[PhaseShare, ...] = ()
    findings: tuple[Finding, ...] = ()
    memory: Annotated[Mapping[str, Any], Shaped(MemoryTotals)] = field(default_factory=dict)
    resources: Annotated[Mapping[str, Any], Shaped(ResourceTotals)] = field(default_factory=dict)
    overhead: Annotated[Mapping[str, Any], Shaped(OverheadTotals)] = field(default_factory=dict)
    coverage: Annotated[Mapping[str, Any], Shaped(CoverageTotals)] = field(default_factory=dict)
    ranks: tuple[RankSummary, ...] = ()
    operations: tuple[PerformanceMetrics, ...] = ()  # blocks that the program named itself

    @property
    def verdict(self) -> Finding | None:
        """The headline: what takes most of the loop. None: no loop was found, and `coverage` says
        why."""
        return headline(self.findings)

    def to_dict(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "schema": SCHEMA,
            "run": dict(self.run),
            "steps": asdict(self.steps),
            "wall_ms": self.wall_ms,
            "startup_ms": self.startup_ms,
            "tail_ms": self.tail_ms,
            "breakdown": [part._asdict() for part in self.breakdown],
            "verdict": None if verdict is None else finding_to_dict(verdict),
            "findings": [finding_to_dict(finding) for finding in self.findings],
            "memory": dict(self.memory),
            "resources": dict(self.resources),
            "overhead": dict(self.overhead),
            "coverage": dict(self.coverage),
            "ranks": [rank._asdict() for rank in self.ranks],
            "operations": [one.to_dict() for one in self.operations],
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Summary:
        """A saved summary again. Raises FormatError for anything else."""
        for part in ("steps", "breakdown", "findings"):
            if part not in saved:
                raise FormatError(f"summary has no {part}.")
        made: Summary = from_plain(cls, dict(saved), "summary")
        return made


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
        "library": asdict(finding.library),
        "evidence": list(finding.evidence),
        "missing": list(finding.missing),
        "measures": {key: one for key, one in finding.measures.items() if isfinite(one)},
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
