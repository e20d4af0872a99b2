"""Findings about the computation itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import duration, percent
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["compute_finding", "optimizer_finding"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def compute_finding(whole: Whole, in_the_way: Sequence[Finding]) -> Finding:
    """The share of the computation. `in_the_way`: findings about everything else, of any size."""
    share = whole.share(*_COMPUTE)
    hindered = any(f.share >= KINDS[f.kind].moderate_share for f in in_the_way)
    title = (
        f"computation takes {percent(share)} of the time"
        if hindered
        else "compute-bound: nothing in your loop is in the way"
    )
    parts = ", ".join(
        f"{phase} {percent(whole.share(phase))}" for phase in _COMPUTE if whole.wall(phase)
    )
    evidence = [f"Computation takes {percent(share)} of the time: {parts or 'none was seen'}."]
    evidence += [*_running(whole), *_largest(in_the_way)]
    return Finding(
        kind="compute",
        title=title,
        share=share,
        severity=severity("compute", share),
        confidence=confidence(whole, *_COMPUTE, separated=_separated(in_the_way)),
        evidence=tuple(evidence),
        missing=("Which layers and operations it goes to was not measured.",),
        measures={"step_ms": whole.step_ns / 1e6},
    )


def _separated(in_the_way: Sequence[Finding]) -> float:
    """How far everything else stays below what is worth attention: 1 when there is nothing."""
    nearest = max((f.share / KINDS[f.kind].moderate_share for f in in_the_way), default=0.0)
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


def _largest(in_the_way: Sequence[Finding]) -> Iterator[str]:
    largest = max(in_the_way, key=lambda f: f.share, default=None)
    if largest is not None and largest.share < KINDS[largest.kind].moderate_share:
        yield f"The largest of everything else is {largest.kind} with {percent(largest.share)}."


def optimizer_finding(whole: Whole) -> Iterator[Finding]:
    """Named where the optimizer takes as much as its kind calls high: below, it is just work."""
    share = whole.share(Phase.OPTIMIZER)
    if share < KINDS["optimizer"].high_share:
        return
    each = duration(whole.wall(Phase.OPTIMIZER) / max(1, whole.steps))
    model = whole.wall(Phase.FORWARD, Phase.BACKWARD) / max(1, whole.steps)
    yield Finding(
        kind="optimizer",
        title=f"compute-bound: the optimizer takes {percent(share)} of the time",
        share=share,
        severity=severity("optimizer", share),
        confidence=confidence(whole, Phase.OPTIMIZER),
        evidence=(
            f"The optimizer takes {each} of every step, forward and backward {duration(model)}.",
        ),
        missing=("Whether the optimizer is fused was not looked at.",),
        measures={"step_ms": whole.step_ns / 1e6, "model_share": model / max(whole.step_ns, 1)},
    )
