"""What to do about what happens while training goes on."""

from __future__ import annotations

from stepscope.advise.gain import at
from stepscope.model.finding import Finding, Recommendation, gain_between

__all__ = [
    "anomaly",
    "gpu_starved",
    "loss_diverging",
    "loss_not_finite",
    "slowdown",
    "stall",
    "threshold",
    "throttling",
]


def stall(finding: Finding) -> Recommendation:
    where = finding.location
    look = "stepscope capture on the run shows its stacks" if where.file is None else ""
    return Recommendation(
        title="See what it waits for, and give that a limit of time",
        action=look
        or f"Look{at(where)}: a lock, a queue, a network call or a collective there has"
        " not come back; give it a timeout",
    )


def slowdown(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Undo what changed then",
        action=f"Look{at(finding.location)}: what is done there takes longer than it did"
        if finding.location.file
        else "Look for another program on this machine (top), a file system that became slow, or"
        " lower clocks",
        # Back to what it was: that much was measured.
        expected_speedup=_back(finding),
    )


def _back(finding: Finding) -> tuple[float, float] | None:
    ratio = finding.measures.get("ratio")
    if ratio is None or ratio <= 1.0:
        return None
    return gain_between(1.0 - 1.0 / ratio, 1.0 - 1.0 / ratio)


def anomaly(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Look at that step",
        action="One odd step costs little; many of them are worth a stepscope capture",
    )


def throttling(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Cool the device, or give it its power",
        action="Check fans and airflow, the power limit (nvidia-smi -q -d PERFORMANCE) and what"
        " else runs on it",
    )


def gpu_starved(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Feed the device",
        action=f"Make the input faster{at(finding.location)}: stepscope tune tries loader settings",
    )


def loss_not_finite(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Stop, and go back to the last good checkpoint",
        action="Lower the learning rate, clip gradients, or use GradScaler with float16; "
        "torch.autograd.set_detect_anomaly(True) names the operator",
        risk="Every further step trains on nothing.",
    )


def loss_diverging(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Go back, with a lower learning rate",
        action="Take up training from a checkpoint before this step; clip gradients",
    )


def threshold(finding: Finding) -> Recommendation:
    return Recommendation(
        title="This is a limit that you set",
        action="Change what uses it, or the limit in your rules",
    )
