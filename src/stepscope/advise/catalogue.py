"""Finding → Recommendation, one entry a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from stepscope.advise import compute, fragmentation, host, live, loader, memory
from stepscope.advise.changes import changes_for
from stepscope.model.finding import Finding, Recommendation

__all__ = ["advise", "recommend"]


def advise(findings: Iterable[Finding]) -> list[Finding]:
    """The same findings, each with what to do about it."""
    return [replace(finding, recommendation=recommend(finding)) for finding in findings]


def recommend(finding: Finding) -> Recommendation | None:
    """What to change; None: the catalogue knows nothing about this kind."""
    entry = _CATALOGUE.get(finding.kind)
    if entry is None:
        return None
    return replace(entry(finding), changes=changes_for(finding))


_CATALOGUE: dict[str, Callable[[Finding], Recommendation]] = {
    "input-cpu": loader.speed_up_input,
    "input-io": loader.speed_up_input,
    "input-network": loader.speed_up_input,
    "input-collate": loader.cheaper_collate,
    "input-ipc": loader.cheaper_sending,
    "input-worker-startup": loader.keep_workers,
    "input-skew": loader.even_out,
    "transfer": host.transfer,
    "compute": compute.compute,
    "cpu-bound": compute.cpu_bound,
    "host-overhead": compute.host_overhead,
    "precision": compute.precision,
    "denormals": compute.denormals,
    "layout": compute.layout,
    "recompute": compute.recompute,
    "optimizer": compute.optimizer,
    "python-in-loop": host.python_in_loop,
    "logging-io": host.logging_io,
    "checkpoint-save": host.checkpoint_save,
    "validation": host.validation,
    "gc": host.gc,
    "gil": host.gil,
    "oversubscription": host.oversubscription,
    "busy-machine": host.busy_machine,
    "communication": host.communication,
    "swap": host.swap,
    "device-sync": host.device_sync,
    "leak": memory.leak,
    "cycle-garbage": memory.cycle_garbage,
    "fragmentation": fragmentation.fragmentation,
    "memory-pressure": memory.memory_pressure,
    "stall": live.stall,
    "slowdown": live.slowdown,
    "anomaly": live.anomaly,
    "throttling": live.throttling,
    "gpu-starved": live.gpu_starved,
    "loss-not-finite": live.loss_not_finite,
    "loss-diverging": live.loss_diverging,
    "threshold": live.threshold,
}
