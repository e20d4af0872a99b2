"""What batches of a loader cost, measured from inside with as little as possible.

A stand-in for the pipeline that stepscope itself records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader

from programs.pipelines import SAMPLES, Made, Pipeline, use_batch
from stepscope.advise.simulate import BatchWork

_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Fetched(NamedTuple):
    """Clocks of one batch, in seconds, in the process that made it."""

    wall: float
    cpu: float
    delay: float  # ready, without a CPU
    process_cpu: float  # of all threads, until the end of this batch
    pid: int


class Costs(NamedTuple):
    """Of a setting: what each batch took, and what it took to send and use one, in seconds."""

    workers: int
    made: Sequence[BatchWork]
    send_s: float
    receive_s: float
    main_s: float
    main_cpu_s: float
    batch_s: float  # from one batch to the next


class _Timed(Made):
    def __getitems__(self, indices: Sequence[int]) -> Any:
        began = _clocks()
        return began, [self.sample(index) for index in indices]


class _Collate:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def __call__(self, fetched: Any) -> Any:
        began, samples = fetched
        batch = self.pipeline.collate(samples)
        wall, cpu, delay = (end - start for start, end in zip(began, _clocks(), strict=True))
        return batch, Fetched(wall, cpu, delay, time.process_time(), os.getpid())


def measure(pipeline: Pipeline, workers: int, batches: int) -> Costs:
    """One pass over the loader, its first batches not counted."""
    loader = DataLoader(
        _Timed(batches, pipeline.sample),
        batch_size=SAMPLES,
        num_workers=workers,
        collate_fn=_Collate(pipeline),
    )
    fetched: list[Fetched] = []
    received, used, used_cpu, at = [], [], [], []
    iterator = iter(loader)
    for _ in range(batches):
        start_cpu = time.thread_time()
        _, clocks = next(iterator)
        got, got_cpu = time.perf_counter(), time.thread_time()
        use_batch()
        at.append(time.perf_counter())
        fetched.append(Fetched(*clocks))
        received.append(got_cpu - start_cpu)
        used.append(at[-1] - got)
        used_cpu.append(time.thread_time() - got_cpu)
    del iterator
    warm = max(2, 2 * workers)
    seen = fetched[warm:]
    made = [BatchWork(one.cpu, max(0.0, one.wall - one.cpu - one.delay)) for one in seen]
    send_s = _sending(fetched) if workers else 0.0
    receive_s = _mean(received[warm:]) if workers else 0.0
    return Costs(
        workers=workers,
        made=made,
        send_s=send_s,
        receive_s=receive_s,
        main_s=_mean(used[warm:]),
        main_cpu_s=_mean(used_cpu[warm:]),
        batch_s=(at[-1] - at[warm - 1]) / len(seen),
    )


def throughput(pipeline: Pipeline, workers: int, batches: int) -> float:
    """Batches a second, without a look inside; the first batches not counted."""
    loader = DataLoader(
        Made(batches, pipeline.sample),
        batch_size=SAMPLES,
        num_workers=workers,
        collate_fn=pipeline.collate,
    )
    warm, began = max(2, 2 * workers), 0.0
    for number, _ in enumerate(loader):
        use_batch()
        if number + 1 == warm:
            began = time.perf_counter()
    return (batches - warm) / (time.perf_counter() - began)


def _clocks() -> tuple[float, float, float]:
    delay_ns = int(_SCHEDSTAT.read_text().split()[1])
    return time.perf_counter(), time.thread_time(), delay_ns / 1e9


def _sending(fetched: Sequence[Fetched]) -> float:
    """CPU time of a worker beside the making of batches: its feeder thread, mostly."""
    beside = []
    last: dict[int, Fetched] = {}
    for one in fetched:
        before = last.get(one.pid)
        if before is not None:
            beside.append(one.process_cpu - before.process_cpu - one.cpu)
        last[one.pid] = one
    return max(0.0, _mean(beside))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


torch.set_num_threads(1)
