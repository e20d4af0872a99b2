"""Finding → Recommendation, one entry a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from stepscope.advise.loader import keep_workers, speed_up_input
from stepscope.model.finding import Finding, Recommendation

__all__ = ["advise", "recommend"]


def advise(findings: Iterable[Finding]) -> list[Finding]:
    """The same findings, each with what to do about it."""
    return [replace(finding, recommendation=recommend(finding)) for finding in findings]


def recommend(finding: Finding) -> Recommendation | None:
    """What to change; None: the catalogue knows nothing about this kind."""
    entry = _CATALOGUE.get(finding.kind)
    return entry(finding) if entry is not None else None


def _without(finding: Finding, saved: float) -> float | None:
    """How much faster the loop is when this share of the finding's cost is saved."""
    left = 1.0 - finding.share * saved
    return 1.0 / left if left > 0 else None


def _between(finding: Finding, least: float, most: float = 1.0) -> tuple[float, float] | None:
    low, high = _without(finding, least), _without(finding, most)
    return (low, high) if low is not None and high is not None else None


def _compute(_: Finding) -> Recommendation:
    return Recommendation(
        title="Only cheaper computation makes this faster",
        action="Try torch.compile(model), a larger batch or lower precision, and measure each",
        risk="A larger batch and lower precision can change what the model learns.",
    )


def _validation(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Evaluate half as often, or on half the samples",
        action="Raise the interval between evaluations, or evaluate on a subset",
        expected_speedup=_between(finding, 0.5),
        risk="Overfitting is noticed later.",
    )


def _checkpoint_save(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Save half as often, or in the background",
        action="Raise the interval between saves, or use torch.distributed.checkpoint.async_save",
        expected_speedup=_between(finding, 0.5),
        risk="More steps are lost when training is interrupted.",
    )


def _gc(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Collect garbage at chosen steps only",
        action="gc.freeze(); gc.disable() before the loop, gc.collect() every few hundred steps",
        expected_speedup=_between(finding, 0.0),
        risk="Garbage in cycles stays longer: watch the memory.",
    )


def _transfer(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Copy while the device computes",
        action="DataLoader(..., pin_memory=True) and tensor.to(device, non_blocking=True)",
        expected_speedup=_between(finding, 0.0),
    )


def _python_in_loop(finding: Finding) -> Recommendation:
    blocked = finding.measures.get("busy_share", 1.0) < 0.5
    action = (
        "Look for sleeps, writes, logging calls and locks between the phases; do them every n steps"
        if blocked
        else "Look for per-step logging, metrics and conversions; do them every n steps, or batched"
    )
    return Recommendation(
        title="Move work out of the loop, or do it less often",
        action=action,
        expected_speedup=_between(finding, 0.0),
    )


def _optimizer(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Let the optimizer update all parameters at once",
        action="Construct it with fused=True, or foreach=True where that is not supported",
        expected_speedup=_between(finding, 0.0),
        risk="Rounding may differ in the last bits.",
    )


def _oversubscription(finding: Finding) -> Recommendation:
    cpus, ranks = finding.measures.get("cpu_count", 1.0), finding.measures.get("ranks", 1.0)
    return Recommendation(
        title="Use no more threads than there are CPUs",
        action=f"torch.set_num_threads({max(1, int(cpus // ranks))}), and fewer loader workers",
        expected_speedup=_between(finding, 0.0),
    )


def _swap(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Need less memory on the host",
        action="Use fewer workers and a smaller prefetch_factor, or cache less",
        expected_speedup=_between(finding, 0.0),
    )


_CATALOGUE: dict[str, Callable[[Finding], Recommendation]] = {
    "input-cpu": speed_up_input,
    "input-io": speed_up_input,
    "input-worker-startup": keep_workers,
    "compute": _compute,
    "validation": _validation,
    "checkpoint-save": _checkpoint_save,
    "gc": _gc,
    "transfer": _transfer,
    "python-in-loop": _python_in_loop,
    "optimizer": _optimizer,
    "oversubscription": _oversubscription,
    "swap": _swap,
}
