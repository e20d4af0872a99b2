"""Findings about the computation itself, and about the optimizer's part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stepscope.analyze.alternatives import tried
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.phase_finding import place
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import duration, percent
from stepscope.model import traits
from stepscope.model.details import LayerTime
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["compute", "optimizer"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
# A wait without a known cause is said from this share of the loop on.
_WORTH_A_LINE = 0.02


def compute(evidence: Evidence, share: float, costs: Sequence[Finding]) -> Finding:
    """`share`: what the other causes, `costs`, leave of the computation."""
    whole = evidence.whole
    parts = ", ".join(
        f"{phase} {percent(whole.share(phase))}" for phase in _COMPUTE if whole.wall(phase)
    )
    known = evidence.details.layers or evidence.details.ops
    return Finding(
        kind="compute",
        title=KINDS["compute"].title(share),
        share=share,
        severity=severity("compute", share),
        confidence=confidence(whole, *_COMPUTE, separated=_separated(costs)),
        evidence=(
            f"Computation takes {percent(whole.share(*_COMPUTE))} of the loop: {parts or 'none'}.",
            *_running(whole),
            *_hottest(evidence),
            *_next_largest(costs),
        ),
        missing=() if known else ("Which layers and operations it goes to was not measured.",),
        location=_location(evidence),
        measures={"step_ms": whole.step_ns / 1e6},
    )


def _separated(costs: Sequence[Finding]) -> float:
    """How far everything else stays below what is worth attention: 1 when there is nothing."""
    nearest = max((f.share / KINDS[f.kind].moderate_share for f in costs), default=0.0)
    return abs(1.0 - min(nearest, 2.0))


def _running(whole: Whole) -> Iterator[str]:
    ran = whole.cpu_share(*_COMPUTE)
    busy = [gpu.busy_share for gpu in whole.resources.gpus if gpu.busy_share is not None]
    if busy:
        yield f"GPUs were busy {percent(sum(busy) / len(busy))} of the time."
    elif ran is not None:
        yield f"The training thread was on a CPU {percent(ran)} of that time."
    cores, cpus = whole.resources.program.cpu_cores, whole.resources.cpu_count
    if cores is not None and cpus:
        yield f"The program kept {cores:.1f} of {cpus:g} CPUs busy."
    if whole.cpu_wait.unnamed >= _WORTH_A_LINE:
        yield (
            f"The training thread was ready but had no CPU {percent(whole.cpu_wait.unnamed)} of the"
            " loop; which program had it is unknown."
        )


def _hottest_layer(evidence: Evidence) -> LayerTime | None:
    layers = [layer for layer in evidence.details.layers if layer.path]
    return max(layers, key=_self_ms, default=None)


def _self_ms(layer: LayerTime) -> float:
    return layer.self_forward_ms + (layer.self_backward_ms or 0.0)


def _hottest(evidence: Evidence) -> Iterator[str]:
    layer = _hottest_layer(evidence)
    if layer is not None:
        own = duration(_self_ms(layer) * 1e6)
        yield f"Slowest layer: {layer.path} ({layer.kind}), {own} per step."
    if evidence.details.ops:
        op = max(evidence.details.ops, key=lambda one: one.self_ms)
        took = duration(op.self_ms * 1e6)
        yield f"Slowest operator: {op.name}, {took} per step in {op.calls:g} calls."


def _location(evidence: Evidence) -> Location:
    at = place(evidence, Phase.FORWARD)
    layer = _hottest_layer(evidence)
    op = max(evidence.details.ops, key=lambda one: one.self_ms, default=None)
    return Location(
        at.file,
        at.line,
        at.function,
        layer=layer.path if layer is not None else None,
        op=op.name if op is not None else None,
    )


def _next_largest(costs: Sequence[Finding]) -> Iterator[str]:
    largest = max(costs, key=lambda f: f.share, default=None)
    if largest is not None and 0 < largest.share < KINDS[largest.kind].moderate_share:
        yield f"Next largest cost: {KINDS[largest.kind].words}, {percent(largest.share)}."


def optimizer(evidence: Evidence) -> Finding | None:
    """One that updates its parameters one by one, from its kind's moderate share on. Of one whose
    flags were not seen, or that is fused, only a high share is named: below, it is just work."""
    whole = evidence.whole
    share = whole.share(Phase.OPTIMIZER)
    flags = evidence.trait(traits.OPTIMIZERS)
    slow = _one_by_one(flags, on_gpu=bool(whole.resources.gpus))
    of = KINDS["optimizer"]
    if share < (of.moderate_share if slow else of.high_share) or not share:
        return None
    each = duration(whole.wall(Phase.OPTIMIZER) / max(1, whole.steps))
    model = whole.wall(Phase.FORWARD, Phase.BACKWARD) / max(1, whole.steps)
    one = tried(evidence, "fused_optimizer")
    fused = float(one["then_ms"]) / float(one["now_ms"]) if one is not None else None
    said = [f"The optimizer takes {each} of every step, forward and backward {duration(model)}."]
    said += [
        f"{one.get('class', 'It')} updates {one.get('parameters', 'its')} parameters one by one:"
        " it is neither fused nor foreach."
        for one in slow
    ]
    if one is not None:
        said.append(
            f"With parameters of the same shapes, a step took {duration(one['now_ms'] * 1e6)} as it"
            f" is and {duration(one['then_ms'] * 1e6)} with fused=True."
        )
    return Finding(
        kind="optimizer",
        title=of.title(share),
        share=share,
        severity=severity("optimizer", share),
        confidence=confidence(whole, Phase.OPTIMIZER),
        evidence=tuple(said),
        missing=() if flags else ("Whether the optimizer is fused was not looked at.",),
        location=place(evidence, Phase.OPTIMIZER),
        measures={
            "step_ms": whole.step_ns / 1e6,
            "model_share": model / max(whole.step_ns, 1),
            **({"one_by_one": float(bool(slow))} if flags else {}),
            **({"fused_ratio": fused} if fused is not None else {}),
        },
    )


def _one_by_one(flags: Any, on_gpu: bool) -> list[Mapping[str, Any]]:
    """Those that are neither fused nor foreach. Unset, foreach is chosen on a GPU only."""
    known = flags if isinstance(flags, list) else []
    return [
        one
        for one in known
        if not one.get("fused")
        and not one.get("foreach")
        and not (on_gpu and one.get("foreach") is None)
    ]
