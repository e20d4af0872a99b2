"""Sums of a loader's spans → its stages, as means for each batch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stepscope.analyze.pipeline_time import Sum
from stepscope.model import names
from stepscope.model.details import Pipeline, SlowSample, StageTime

__all__ = ["Seen", "pipeline_of"]

_TAIL = 4.0  # times the median: beyond it a sample is slow
_SLOW_TOLD = 10
_NONE = Sum()
_MS = 1e6


@dataclass
class Seen:
    """What was seen of one loader within the time of the loops (`loop_ns`, of all ranks)."""

    workers: int
    sums: Mapping[Hashable, Sum]
    loop_ns: int
    slow: list[SlowSample] = field(default_factory=list)
    startups_ns: list[int] = field(default_factory=list)
    starts: int = 0

    def of(self, key: Hashable) -> Sum:
        return self.sums.get(key, _NONE)

    @property
    def fetch(self) -> Sum:
        """Making batches, in the workers; without any, where the loop waits for them."""
        return self.of(names.WORKER_FETCH if self.workers else names.INPUT_NEXT)

    def for_each_batch(self, name: str) -> float | None:
        """Of what the kernel counted, over the batches that were read."""
        found = self.of(name)
        return found.wall_ns / found.calls if found.calls else None


def pipeline_of(seen: Seen) -> Pipeline | None:
    """None: no batch was seen."""
    if not seen.fetch.calls:
        return None
    idle_ns = seen.of(names.WORKER_IDLE).wall_ns
    samples, made = _spread(seen, "sample"), _spread(seen, "batch")
    sent = seen.of("bytes")
    slow = sorted(seen.slow, key=lambda sample: -sample.ms)[:_SLOW_TOLD]
    startups, system_ns = seen.startups_ns, seen.for_each_batch(names.WORKER_SYSTEM_NS)
    return Pipeline(
        workers=seen.workers,
        batches=round(seen.fetch.calls),
        stages=_stages(seen),
        transforms=_transforms(seen),
        samples=round(samples.number),
        sample_ms=samples.quantiles | ({"max": slow[0].ms} if slow else {}),
        slow_samples=tuple(slow),
        tail_share=_part(samples.slow_ns, seen.fetch.wall_ns) if samples.number else None,
        worker_idle_share=_part(idle_ns, idle_ns + seen.fetch.wall_ns) if seen.workers else None,
        startup_ms=sum(startups) / len(startups) / _MS if startups else None,
        starts=seen.starts,
        bytes_per_batch=sent.wall_ns / sent.calls if sent.calls else None,
        read_bytes_per_batch=seen.for_each_batch(names.WORKER_READ_BYTES),
        read_chars_per_batch=seen.for_each_batch(names.WORKER_READ_CHARS),
        write_bytes_per_batch=seen.for_each_batch(names.WORKER_WRITE_BYTES),
        system_ms_per_batch=None if system_ns is None else system_ns / _MS,
        batch_ms=made.quantiles | ({"max": made.longest_ms} if made.number else {}),
        slow_batch_share=_part(made.excess_ns, made.wall_ns),
    )


def _part(part_ns: float, whole_ns: float) -> float | None:
    """A share of at most 1; None where nothing took any time."""
    return min(1.0, part_ns / whole_ns) if whole_ns else None


def _stages(seen: Seen) -> tuple[StageTime, ...]:
    """In the order of the data."""
    where = "worker" if seen.workers else "main"
    collate = seen.of(names.COLLATE)
    dataset = _without(seen.fetch, collate)
    if not seen.workers:
        dataset = _without(dataset, seen.of((names.PIN, "main")))
    delays = _delays(seen, dataset, collate)
    stages = [
        _stage(seen, "dataset", where, dataset, delays[0]),
        _stage(seen, "collate", where, collate, delays[1]),
    ]
    serialise = _stage(seen, "serialise", "feeder", seen.of(names.SERIALISE))
    if serialise.cpu_ms is not None:
        # Before a full pipe it does not work, it waits for the loop to read.
        cpu_ns = serialise.cpu_ms * _MS * serialise.calls
        serialise = serialise._replace(utilisation=cpu_ns / seen.loop_ns if seen.loop_ns else None)
    stages.append(serialise)
    for name, stage in ((names.DESERIALISE, "deserialise"), (names.PIN, "pin")):
        stages += [_stage(seen, stage, place, seen.of((name, place))) for place in ("main", "pin")]
    return tuple(stage for stage in stages if stage.calls)


def _without(whole: Sum, part: Sum) -> Sum:
    """What is left of a span without another inside it, for as many batches."""
    return Sum(
        whole.calls,
        max(0.0, whole.wall_ns - part.wall_ns),
        max(0.0, whole.clocked_ns - part.clocked_ns),
        max(0.0, whole.cpu_ns - part.cpu_ns),
    )


def _delays(seen: Seen, dataset: Sum, collate: Sum) -> tuple[float | None, float | None]:
    """Waiting for a CPU was read for whole batches: who computes is who waits for one, but neither
    for longer than it did not compute."""
    each_ns = seen.for_each_batch(names.WORKER_RUN_DELAY_NS)
    if each_ns is None or dataset.cpu is None:
        return None, None
    delay_ns = each_ns * seen.fetch.calls
    collate_cpu = collate.cpu or 0.0
    computed = dataset.cpu + collate_cpu
    room = max(0.0, dataset.wall_ns - dataset.cpu), max(0.0, collate.wall_ns - collate_cpu)
    of_collate = min(room[1], delay_ns * collate_cpu / computed if computed else 0.0)
    of_dataset = min(room[0], delay_ns - of_collate)
    return of_dataset, min(room[1], delay_ns - of_dataset)


def _stage(
    seen: Seen, name: str, where: str, found: Sum, delay_ns: float | None = None
) -> StageTime:
    if not found.calls:
        return StageTime(name, where, 0.0)
    each = found.calls * _MS
    cpu_ns = found.cpu
    blocked_ns = None
    if cpu_ns is not None and delay_ns is not None:
        blocked_ns = max(0.0, found.wall_ns - cpu_ns - delay_ns)
    return StageTime(
        name,
        where,
        wall_ms=found.wall_ns / each,
        cpu_ms=None if cpu_ns is None else cpu_ns / each,
        run_queue_ms=None if delay_ns is None else delay_ns / each,
        blocked_ms=None if blocked_ns is None else blocked_ns / each,
        utilisation=found.wall_ns / seen.loop_ns if seen.loop_ns else None,
        calls=round(found.calls),
    )


def _transforms(seen: Seen) -> tuple[StageTime, ...]:
    """The dearest first; means for each batch, though one is called for each of its samples."""
    where = "worker" if seen.workers else "main"
    found = []
    for key, total in seen.sums.items():
        if isinstance(key, tuple) and key[0] == names.TRANSFORM:
            name = str(key[1]).partition("\t")[0] or "?"
            stage = _stage(seen, name, where, total._replace(calls=seen.fetch.calls))
            found.append(stage._replace(calls=round(total.calls)))
    return tuple(sorted(found, key=lambda stage: -stage.wall_ms))


class _Spread(NamedTuple):
    """How samples or batches differ. `slow_ns`: the time of those far beyond the median,
    `excess_ns`: what they take more than it, `longest_ms`: the mean of the slowest bin."""

    number: float
    wall_ns: float
    quantiles: dict[str, float]  # in ms
    slow_ns: float
    excess_ns: float
    longest_ms: float


def _spread(seen: Seen, what: str) -> _Spread:
    bins = sorted(
        (total.wall_ns / total.calls, total)
        for key, total in seen.sums.items()
        if isinstance(key, tuple) and key[0] == what and total.calls
    )
    count = sum(total.calls for _, total in bins)
    if not count:
        return _Spread(0.0, 0.0, {}, 0.0, 0.0, 0.0)
    found = {}
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        passed = 0.0
        for mean_ns, total in bins:
            passed += total.calls
            if passed >= share * count:
                found[name] = mean_ns / _MS
                break
    median_ns = found["p50"] * _MS
    slow = [total for mean_ns, total in bins if mean_ns > _TAIL * median_ns]
    return _Spread(
        count,
        sum(total.wall_ns for _, total in bins),
        found,
        sum(total.wall_ns for total in slow),
        sum(total.wall_ns - total.calls * median_ns for total in slow),
        bins[-1][0] / _MS,
    )
