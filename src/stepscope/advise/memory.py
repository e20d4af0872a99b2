"""What to change about memory. Gains are in bytes, so none of it promises a speed-up."""

from __future__ import annotations

from stepscope.advise.gain import at
from stepscope.model.finding import Finding, Recommendation
from stepscope.model.memory import ACTIVATION, GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER

__all__ = ["cycle_garbage", "leak", "memory_pressure"]


def leak(finding: Finding) -> Recommendation:
    if finding.measures.get("of_graph"):
        return Recommendation(
            title="Keep the number, not the graph",
            action="Use loss.item() or .detach() where the tensor is kept" + at(finding.location),
        )
    if finding.location.file is None:
        return Recommendation(
            title="Find the line", action="Run it once with: stepscope run --memory …"
        )
    return Recommendation(
        title="Let go of it, or bound what keeps it",
        action=f"Delete or overwrite what is kept{at(finding.location)}; for a history use numbers"
        " or collections.deque(maxlen=…)",
    )


def cycle_garbage(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Break the cycle",
        action="Use weakref.ref for the reference back, or delete it when the object is done"
        + at(finding.location),
        risk="Until then, collecting every few steps (gc.collect()) bounds it, and costs time.",
    )


_AGAINST = {
    ACTIVATION: (
        "Keep fewer activations: a smaller batch with gradient accumulation, or"
        " torch.utils.checkpoint around the largest layers"
    ),
    OPTIMIZER_STATE: (
        "Use an optimizer with less state: SGD with momentum keeps half of what Adam does; or"
        " shard it over ranks (ZeroRedundancyOptimizer, FSDP)"
    ),
    GRADIENT: (
        "Free gradients early: optimizer.zero_grad(set_to_none=True) right after the step, or the"
        " optimizer in backward hooks"
    ),
    PARAMETER: (
        "Make the model smaller, or shard it: FSDP, or a narrower dtype for what is not trained"
    ),
    INPUT: "Hold fewer batches: a smaller prefetch_factor, and del batch when it is used",
}


def memory_pressure(finding: Finding) -> Recommendation:
    shares = {name: finding.measures.get(f"{name}_share", 0.0) for name in _AGAINST}
    largest = max(shares, key=shares.__getitem__)
    if not shares[largest]:
        return Recommendation(
            title="Use less at once",
            action="A smaller batch with gradient accumulation; stepscope run --memory … says what"
            " the peak is made of",
        )
    title, _, action = _AGAINST[largest].partition(": ")
    return Recommendation(
        title=title,
        action=f"{action}. Of the tensors' peak, {shares[largest]:.0%} is {largest}",
    )
