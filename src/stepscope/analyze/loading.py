"""What limits a loader that was iterated by itself, from evidence: busy, waiting for what, short of
what. How long a batch takes says nothing about why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analyze.judge import likely, separation, severity
from stepscope.analyze.words import bytes_text, duration, percent, plural
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.model.loading import DataLoadingBottleneck, LoadingFigures

__all__ = ["Limit", "loading_limits"]

_READS = 1e5  # bytes a second: less is no reading from a disk
_WORTH_IT = 1.03  # times as fast: less is within the error of any measurement
_ALONE = "Whether training waits for this depends on its step: profile it with step_time."
_B = DataLoadingBottleneck


class Limit(NamedTuple):
    bottleneck: DataLoadingBottleneck
    finding: Finding


def loading_limits(figures: LoadingFigures) -> list[Limit]:
    """The worst first; [] where nothing was measured, or training does not wait for it.

    Shares are of the training step where that is known, else of the loader's own time.
    """
    if not figures.batches or not figures.weight:
        return []
    found = [
        *_making(figures),
        *_workers(figures),
        *_startup(figures),
        *_memory(figures),
        *_transfer(figures),
    ]
    return sorted(found, key=lambda one: -one.finding.severity)


def _limit(
    bottleneck: DataLoadingBottleneck,
    kind: str,
    share: float,
    sure: float,
    title: str,
    *evidence: str,
    missing: tuple[str, ...] = (),
    figures: LoadingFigures,
) -> Iterator[Limit]:
    """Only what reaches its kind's moderate share."""
    share = min(1.0, share * figures.weight)
    if share < KINDS[kind].moderate_share:
        return
    finding = Finding(
        kind=kind,
        title=title,
        share=share,
        severity=severity(kind, share),
        confidence=sure,
        evidence=evidence,
        missing=missing if figures.step_s is not None else (*missing, _ALONE),
    )
    yield Limit(bottleneck, finding)


def _making(figures: LoadingFigures) -> Iterator[Limit]:
    """Those who make batches either compute, want a CPU, or wait for something else."""
    busy, delay, waits = figures.busy_share, figures.delay_share, figures.waiting_share
    if busy is None or waits is None:
        return
    makers = figures.workers or 1
    who = f"A worker ({makers} of them)" if figures.workers else "This process (num_workers=0)"
    of_batch = f"{who} took {duration(makers * figures.batch_s * 1e9)} for a batch"
    if busy + delay >= 0.5:
        ready = f" and was without a CPU for another {percent(delay)}" if delay >= 0.05 else ""
        yield from _limit(
            _B.CPU_BOUND_PREPROCESSING,
            "input-cpu",
            busy + delay,
            separation(busy + delay),
            f"making batches wants a CPU {percent(busy + delay)} of the loader's time",
            f"{of_batch}, and computed {percent(busy)} of that{ready}.",
            figures=figures,
        )
    yield from _waiting(figures, waits, of_batch)


def _waiting(figures: LoadingFigures, waits: float, of_batch: str) -> Iterator[Limit]:
    blocked, read = figures.blocked_io_share, figures.read_bytes_per_s
    reads = read is not None and read >= _READS
    if (blocked is not None and blocked >= KINDS["input-io"].moderate_share) or reads:
        share = waits if blocked is None else max(blocked, waits if reads else 0.0)
        rate = "an unknown amount" if read is None else bytes_text(read)
        yield from _limit(
            _B.SLOW_DISK_IO,
            "input-io",
            share,
            # How much of the wait the kernel books as waiting for a disk.
            separation(waits) if blocked is None else likely(min(1.0, blocked / (waits or 1.0))),
            f"waiting for a disk takes {percent(share)} of the loader's time",
            f"{of_batch}, and waited {percent(waits)} of that.",
            f"It read {rate} a second from a disk.",
            figures=figures,
        )
    elif waits >= 0.5:
        known = "Nothing was read from a disk." if read is not None else "Reading was not measured."
        yield from _limit(
            _B.SLOW_DATA_SOURCE,
            "input-io",
            waits,
            separation(waits),
            f"waiting for data takes {percent(waits)} of the loader's time",
            f"{of_batch}, and waited {percent(waits)} of that.",
            known,
            missing=("Whether it waited for a network, a lock or a sleep was not measured.",),
            figures=figures,
        )


def _workers(figures: LoadingFigures) -> Iterator[Limit]:
    if figures.best_batches_per_s is None or figures.best_workers is None or not figures.batch_s:
        return
    low, high = figures.best_batches_per_s
    now = 1.0 / figures.batch_s
    if low < _WORTH_IT * now or figures.best_workers <= figures.workers:
        return
    busy = figures.busy_share or 0.0
    yield from _limit(
        _B.INSUFFICIENT_WORKERS,
        "input-cpu" if busy >= 0.5 else "input-io",
        1.0 - now / high,
        low / high,  # how closely the gain is known
        f"{plural(figures.best_workers, 'worker')} would make batches faster",
        f"{plural(figures.workers, 'worker')} made {now:.1f} batches a second.",
        f"The model of throughput gives {low:.1f} to {high:.1f} for {figures.best_workers}.",
        figures=figures,
    )


def _startup(figures: LoadingFigures) -> Iterator[Limit]:
    """As a share of a whole pass over the data, where its length is known."""
    if not figures.workers:
        return
    whole_s = figures.total_s
    if figures.pass_batches is not None:
        whole_s = figures.startup_s + figures.pass_batches * figures.batch_s
    share = min(1.0, figures.startup_s / whole_s) if whole_s else 0.0
    yield from _limit(
        _B.WORKER_STARTUP,
        "input-worker-startup",
        share,
        likely(share),  # how much of a pass it explains
        f"starting workers takes {percent(share)} of a pass over the data",
        f"The first batches came {duration(figures.startup_s * 1e9)} later than the others do.",
        figures=figures,
    )


def _memory(figures: LoadingFigures) -> Iterator[Limit]:
    taken = figures.memory_taken
    if taken is None or taken < figures.memory_threshold:
        return
    finding = Finding(
        kind="memory-pressure",
        title=f"{percent(taken)} of the machine's memory was taken",
        share=taken,
        severity=severity("memory-pressure", taken),
        confidence=likely(figures.own_memory_share),  # the rest is other programs' memory
        evidence=(f"The threshold is {percent(figures.memory_threshold)}.",),
    )
    yield Limit(_B.MEMORY_PRESSURE, finding)


def _transfer(figures: LoadingFigures) -> Iterator[Limit]:
    if figures.transfer_share:
        yield from _limit(
            _B.GPU_TRANSFER_OVERHEAD,
            "transfer",
            figures.transfer_share,
            likely(figures.transfer_share),  # how much of the loader's time it explains
            f"moving tensors takes {percent(figures.transfer_share)} of the loader's time",
            "Tensors were moved to another device while batches were made.",
            figures=figures,
        )
