"""The finding about work that is not the model's arithmetic: dispatching it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepscope.analyze.alternatives import tried
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.phase_finding import phase_finding
from stepscope.analyze.words import duration, percent
from stepscope.model import traits
from stepscope.model.finding import Finding
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["host_overhead"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def host_overhead(evidence: Evidence) -> Finding | None:
    """Python and dispatch between the operators: computation less what its operators take
    themselves. Operators shorter than their own dispatch count as dispatch."""
    one = tried(evidence, "only_work")
    if one is not None:
        return _by_running_again(evidence, one)
    if evidence.details.ops:
        return _by_operators(evidence)
    return _by_stacks(evidence)


def _by_running_again(evidence: Evidence, one: Mapping[str, Any]) -> Finding | None:
    """Operators of a step, run again alone: what they take beyond an operator with nothing to do
    is work."""
    whole, step_ms = evidence.whole, evidence.whole.step_ns / 1e6
    # Only as far as the thread ran: waiting for a lock or a CPU is no dispatch.
    ran = whole.cpu_share(*_COMPUTE)
    computed_ms = whole.share(*_COMPUTE) * step_ms * (1.0 if ran is None else ran)
    calls, failed = float(one.get("calls", 0)), float(one.get("failed", 0))
    known = calls / (calls + failed) if calls else 0.0
    working_ms = float(one["then_ms"]) / known if known else computed_ms
    overhead_ms = computed_ms - working_ms
    if overhead_ms <= 0 or not step_ms:
        return None
    said = [
        (
            f"{calls + failed:,.0f} operators run in every step, not counting views. Run again"
            f" after training, they do {duration(working_ms * 1e6)} of work; computation takes"
            f" {duration(computed_ms * 1e6)} of the step."
        )
    ]
    return phase_finding(
        evidence,
        "host-overhead",
        _COMPUTE,
        said,
        share=overhead_ms / step_ms,
        separated=min(1.0, overhead_ms / computed_ms) * known,
        measures={"ops_per_step": calls + failed, **_compiled(evidence)},
    )


def _by_operators(evidence: Evidence) -> Finding | None:
    whole, ops = evidence.whole, evidence.details.ops
    step_ms = whole.step_ns / 1e6
    computed_ms = whole.share(*_COMPUTE) * step_ms
    working_ms = sum(
        op.self_ms for op in ops if op.self_ms * 1e3 >= Signal.TINY_OP_US * max(op.calls, 1e-9)
    )
    # Profiled steps may be slower than others: then the operators' parts of them count.
    all_ms = sum(op.self_ms for op in ops)
    working_ms *= min(1.0, computed_ms / all_ms) if all_ms else 1.0
    overhead_ms = computed_ms - working_ms
    if overhead_ms <= 0 or not step_ms:
        return None
    calls = sum(op.calls for op in ops)
    said = [
        (
            f"Of {duration(computed_ms * 1e6)} of computation a step,"
            f" {duration(working_ms * 1e6)} are operators that take more than"
            f" {Signal.TINY_OP_US:g} µs each."
        )
    ]
    said.append(f"{calls:,.0f} operators run in every step{_median(evidence)}.")
    return phase_finding(
        evidence,
        "host-overhead",
        _COMPUTE,
        said,
        share=overhead_ms / step_ms,
        separated=min(1.0, overhead_ms / computed_ms),
        measures={"ops_per_step": calls, **_compiled(evidence)},
    )


def _by_stacks(evidence: Evidence) -> Finding | None:
    """Without operators: the time of the model in which Python itself ran, not C."""
    whole = evidence.whole
    ran_ms = total_ms = 0.0
    for stacks in evidence.stacks("main", Phase.FORWARD):
        known = [line for line in stacks.lines if line.native_share is not None]
        ran = sum(line.share * (1.0 - (line.native_share or 0.0)) for line in known)
        ran_ms += stacks.ms * min(1.0, ran)
        total_ms += stacks.ms
    if not total_ms or not ran_ms:
        return None
    share = whole.share(Phase.FORWARD) * ran_ms / total_ms
    said = [f"{percent(ran_ms / total_ms)} of the forward pass ran Python, not C."]
    return phase_finding(
        evidence,
        "host-overhead",
        [Phase.FORWARD],
        said,
        share=share,
        separated=min(1.0, ran_ms / total_ms),
        missing=("Operators were not profiled: what dispatch adds to it is not known.",),
        measures=_compiled(evidence),
    )


def _median(evidence: Evidence) -> str:
    seen: Any = evidence.trait(traits.OPS_PER_STEP)
    median = seen.get("median_us") if isinstance(seen, dict) else None
    return "" if median is None else f", the median one {median:.0f} µs"


def _compiled(evidence: Evidence) -> dict[str, float]:
    compiled = evidence.trait(traits.COMPILED)
    return {} if compiled is None else {"compiled": float(bool(compiled))}
