"""What to change about a loader that training waits for."""

from __future__ import annotations

from dataclasses import replace

from stepscope.advise.gain import at, between, decidable
from stepscope.advise.loader_formula import (
    IPC_BOUND_S,
    ITERABLE_RISK,
    MOST_WORKERS,
    WORTH_IT,
    workers_by_formula,
)
from stepscope.advise.measured import measured_loader
from stepscope.advise.simulate import Loader, choose_workers, simulated
from stepscope.model.finding import Finding, Recommendation

__all__ = [
    "cheaper_collate",
    "cheaper_sending",
    "even_out",
    "keep_workers",
    "speed_up_input",
    "workers_gain",
]

_LEAST_DOUBT = 0.1  # of the played loader, where it meets the present figure exactly


def speed_up_input(finding: Finding) -> Recommendation:
    """Workers, where the model of throughput says they help; else cheaper batches."""
    if finding.measures.get("plain_iterable"):
        return _ahead(finding)
    loader = measured_loader(finding)
    if loader is None:
        return workers_by_formula(finding) or _cheaper(finding)
    return _workers_by_playing(finding, loader) or _cheaper(finding)


def _ahead(finding: Finding) -> Recommendation:
    """Of batches that the loop makes itself, one after the other."""
    return Recommendation(
        title="Make batches ahead, in other processes",
        action=f"Give the work{at(finding.location)} to a DataLoader with num_workers=1 or more, as"
        " a Dataset or an IterableDataset, or make it cheaper",
        expected_speedup=between(finding, 0.0),
        risk=ITERABLE_RISK,
    )


def _workers_by_playing(finding: Finding, loader: Loader) -> Recommendation | None:
    """None: another number of workers is not worth it."""
    now = int(finding.measures["workers"])
    limit = max(2, int(2 * loader.cores)) if finding.kind == "input-cpu" else MOST_WORKERS
    workers = choose_workers(loader, limit)
    low, high = workers_gain(finding, loader, loader, workers)
    if workers == now or high < WORTH_IT:
        return None
    if now == 0:  # what sending costs is not known: at worst it eats up the gain
        half = IPC_BOUND_S / 2
        worst = workers_gain(finding, loader, replace(loader, send_s=half, receive_s=half), workers)
        low = worst[0]
    if low < 1.0:
        return None  # it may lose
    expected = decidable((low, high))
    if workers == 0:
        return Recommendation(
            title="Make batches in the training process: sending them costs more than it saves",
            action="DataLoader(..., num_workers=0)",
            expected_speedup=expected,
        )
    return Recommendation(
        title=f"Let {workers} worker{'s' * (workers > 1)} prepare batches while the model computes",
        action=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
        expected_speedup=expected,
        risk=ITERABLE_RISK if finding.measures.get("iterable") else "",
    )


def workers_gain(finding: Finding, now: Loader, then: Loader, workers: int) -> tuple[float, float]:
    """Against what was measured, with the doubt that playing the present setting leaves."""
    measured = finding.measures["batches_per_step"] / finding.measures["step_ms"] * 1e3
    present = simulated(now, int(finding.measures["workers"]))
    doubt = max(_LEAST_DOUBT, abs(present / measured - 1.0))
    gain = simulated(then, workers) / present
    return gain / (1.0 + doubt), gain


def cheaper_collate(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Put batches together with fewer and larger operations",
        action="One torch.stack or torch.from_numpy for the whole batch in place of loops over"
        f" its samples; pad to the longest of the batch{at(finding.location)}",
    )


def cheaper_sending(finding: Finding) -> Recommendation:
    """Sending less, or nothing at all where that is quicker."""
    loader = measured_loader(finding)
    if loader is not None:
        expected = workers_gain(finding, loader, loader, 0)
        if expected[0] >= 1.0 and expected[1] >= WORTH_IT:
            return Recommendation(
                title="Make batches in the training process: sending them costs more than it saves",
                action="DataLoader(..., num_workers=0)",
                expected_speedup=expected,
            )
    return Recommendation(
        title="Send less from the workers, and as tensors",
        action="Return torch tensors rather than numpy arrays from collate_fn; send uint8 and"
        " convert it in the training process",
    )


def even_out(finding: Finding) -> Recommendation:
    """A few slow samples. Out of order, the batches behind a slow one need not wait for it."""
    loader, workers = measured_loader(finding), int(finding.measures.get("workers", 0.0))
    slow = f"Make the slowest samples cheaper{at(finding.location)}: cut, cache or drop them"
    if loader is not None and workers > 1:
        free = replace(loader, in_order=False, prefetch=2 * loader.prefetch)
        expected = workers_gain(finding, loader, free, workers)
        if expected[0] >= 1.0 and expected[1] >= WORTH_IT:
            return Recommendation(
                title="Let other batches pass a slow one",
                action=f"DataLoader(..., in_order=False, prefetch_factor={free.prefetch}); or:"
                f" {slow}",
                expected_speedup=expected,
                risk="The order of the batches then depends on their speed.",
            )
    return Recommendation(
        title="Make the slowest samples cheaper",
        action=slow,
    )


def keep_workers(finding: Finding) -> Recommendation:
    """Workers that are started anew for every pass over the data."""
    passes = finding.measures.get("iterations", 1.0)
    if finding.measures.get("persistent_workers") or passes < 2:
        return Recommendation(
            title="Start fewer workers, or make them cheaper to start",
            action="Use fewer workers and keep imports and open files out of the dataset's module",
        )
    return Recommendation(
        title="Keep the workers alive between passes over the data",
        action="DataLoader(..., persistent_workers=True)",
        expected_speedup=between(finding, (passes - 1) / passes),  # all starts but the first
    )


def _cheaper(finding: Finding) -> Recommendation:
    """More workers would not help: each batch has to cost less."""
    if finding.kind in ("input-io", "input-network"):
        return Recommendation(
            title="Bring the data nearer: cache it, store it in fewer and larger files",
            action="Read each sample once and keep it in memory or on a local disk",
        )
    return Recommendation(
        title="Make a batch cheaper: do less for each sample, or do it once and keep it",
        action=f"Move work out of __getitem__{at(finding.location)}: precompute, cache, or give the"
        " dataset __getitems__",
    )
