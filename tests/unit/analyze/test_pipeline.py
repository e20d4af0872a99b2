from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.loop import Loop
from stepscope.analyze.pipeline import PipelineFold
from stepscope.analyze.pipeline_time import Sum, TimedSums
from stepscope.model import names
from stepscope.model.details import Pipeline, SlowSample, StageTime
from stepscope.model.event import Flag
from stepscope.model.process import ProcessInfo
from tests.unit.analyze import made
from tests.unit.analyze.made import Event, backward, forward, mark, optimizer, sample, span

PLACE = {"dataset": "Photos", "file": "photos.py", "line": 7}
MAIN, WORKER, FEEDER, PIN_THREAD = 100, 100, 101, 102
MS = made.MS


def process(pid: int, parent: int = 1, rank: int = 0, role: str = "program") -> ProcessInfo:
    return ProcessInfo(pid, parent, rank, 1, "host", role, (), "3.11", "native", 0, 0)


def loader(workers: int, iterator: int = 1, at: float = 0.0, **more: Any) -> Event:
    return mark(names.LOADER, at, iterator, json.dumps({"workers": workers, **PLACE, **more}))


def worker(number: int, workers: int, parent: int = 10, at: float = 0.0, **more: Any) -> Event:
    about = {"loader": {"workers": workers}, "parent": parent, **PLACE, **more}
    return mark(names.WORKER, at, number, json.dumps(about))


def waits(steps: int, each: float = 100.0, iterator: int = 1, inside: Sequence[Event] = ()) -> Any:
    """Steps of 100 ms, 60 of them in input.next."""
    events: list[Event] = []
    for number in range(steps):
        at = number * each
        next_ = made.next_(at, at + 60, iterator, cpu=(at, at + 20))
        inner = [shifted(event, at) for event in inside]
        events += [*inner, next_, forward(at + 60, at + 80), backward(at + 80, at + 90)]
        events.append(optimizer(at + 90, at + 100))
    return events


def shifted(event: Event, at: float) -> Event:
    return event | {"time_ns": int(event["time_ns"]) + round(at * MS)}


def trained(events: Sequence[Event], pid: int = 10) -> Loop:
    fold = LoopFold(pid=pid, began_ns=0)
    fold.update(made.batch(events))
    found = fold.get()
    assert found is not None
    return found


def folded(loops: Sequence[Loop], *told: tuple[ProcessInfo, Sequence[Event]]) -> Pipeline:
    fold = PipelineFold()
    for who, events in told:
        fold.update(who, made.batch(events))
    found = fold.get(loops)
    assert found is not None
    assert fold.get(loops) == found, "asking changes nothing"
    return found


def stage(found: Pipeline, name: str) -> StageTime:
    (only,) = [one for one in found.stages if one.name == name]
    return only


def batches(count: int, each: float, fetch: float, collate: float, cpu: float) -> list[Event]:
    """A worker: `fetch` ms a batch, then idle until `each`; `cpu` of the dataset, none else."""
    events: list[Event] = []
    for number in range(count):
        at = number * each
        done = at + fetch
        events += [
            span(names.SAMPLE, at, done - collate, arg=number, value=1.0),
            span(names.COLLATE, done - collate, done, cpu=(at, at)),
            span(names.WORKER_FETCH, at, done, number, cpu=(at, at + cpu)),
            span(names.SERIALISE, done, done + 4, 3000, cpu=(at, at + 1), track=FEEDER),
            span(names.WORKER_IDLE, done, at + each, cpu=(at, at)),
        ]
    return events


def test_nothing_recorded_is_no_pipeline() -> None:
    loop = trained([loader(0), *waits(3)])

    assert PipelineFold().get([loop]) is None
    assert PipelineFold().get([]) is None


def test_without_workers_the_stages_lie_within_the_wait() -> None:
    inside = [
        span(names.SAMPLE, 0, 20, arg=5, value=1.0),
        span(names.SAMPLE, 20, 40, arg=6, value=1.0),
        span(names.COLLATE, 40, 50, cpu=(0, 8)),
    ]
    events = [loader(0), *waits(4, inside=inside)]

    found = folded([trained(events)], (process(10), events))

    assert (found.workers, found.batches, found.samples) == (0, 4, 8)
    assert stage(found, "dataset") == StageTime(
        "dataset", "main", 50.0, 12.0, utilisation=0.5, calls=4
    )
    assert stage(found, "collate")[:4] == ("collate", "main", 10.0, 8.0)
    assert found.worker_idle_share is None
    assert (found.starts, found.startup_ms) == (0, None)


def test_workers_are_added_up() -> None:
    main = [loader(2), *waits(10)]
    one = [worker(0, 2), *batches(5, 200, fetch=150, collate=30, cpu=90)]
    other = [worker(1, 2), *batches(5, 200, fetch=50, collate=10, cpu=30)]

    found = folded([trained(main)], (process(10), main), (process(11), one), (process(12), other))

    assert (found.workers, found.batches) == (2, 10)
    dataset = stage(found, "dataset")
    assert (dataset.wall_ms, dataset.cpu_ms) == (80.0, 60.0)
    assert dataset.utilisation == pytest.approx(0.8)  # 800 ms of work in a loop of a second
    assert stage(found, "collate").wall_ms == 20.0
    assert found.worker_idle_share == pytest.approx(0.5)
    assert found.bytes_per_batch == 3000
    serialise = stage(found, "serialise")
    assert (serialise.where, serialise.wall_ms, serialise.cpu_ms) == ("feeder", 4.0, 1.0)
    assert serialise.utilisation == pytest.approx(0.01), "before a full pipe nobody works"


def test_blocked_is_what_neither_computed_nor_waited_for_a_cpu() -> None:
    main = [loader(1), *waits(4)]
    work = [worker(0, 1)]
    for number, event in enumerate(batches(4, 100, fetch=80, collate=20, cpu=30)):
        work.append(event)
        if event["name"] == names.WORKER_FETCH:
            read = number // 5 + 1
            at = 100 * (read - 1) + 80.0
            work.append(sample(names.WORKER_RUN_DELAY_NS, at, 10 * MS * read, arg=read))
            work.append(sample(names.WORKER_READ_BYTES, at, 4096.0 * read, arg=read))
            work.append(sample(names.WORKER_WRITE_BYTES, at, 512.0 * read, arg=read))
            work.append(sample(names.WORKER_SYSTEM_NS, at, 3.0 * MS * read, arg=read))

    found = folded([trained(main)], (process(10), main), (process(11), work))

    dataset, collate = stage(found, "dataset"), stage(found, "collate")
    assert (dataset.wall_ms, dataset.cpu_ms) == (60.0, 30.0)
    # Collate did not compute, so it is the dataset that waited for a CPU.
    assert (dataset.run_queue_ms, dataset.blocked_ms) == (10.0, 20.0)
    assert (collate.run_queue_ms, collate.blocked_ms) == (0.0, 20.0)
    assert found.read_bytes_per_batch == 4096.0
    assert found.read_chars_per_batch is None
    assert (found.write_bytes_per_batch, found.system_ms_per_batch) == (512.0, 3.0)


def test_batches_that_were_not_read_are_taken_for_like_those_that_were() -> None:
    main = [loader(1), *waits(4)]
    work = [worker(0, 1), *batches(4, 100, fetch=80, collate=0, cpu=30)]
    work.append(sample(names.WORKER_RUN_DELAY_NS, 80, 10 * MS, arg=1))
    work.append(sample(names.WORKER_RUN_DELAY_NS, 380, 30 * MS, arg=2))

    found = folded([trained(main)], (process(10), main), (process(11), work))

    assert stage(found, "dataset").run_queue_ms == 15.0


def test_batches_that_took_no_time_have_no_shares() -> None:
    """No program writes these; a damaged file may hold them."""
    main = [loader(1), *waits(2)]
    work = [worker(0, 1), *batches(2, 0, fetch=0, collate=0, cpu=0)]

    found = folded([trained(main)], (process(10), main), (process(11), work))

    assert (found.samples, found.tail_share, found.worker_idle_share) == (2, None, None)


def test_slow_samples_and_their_share() -> None:
    main = [loader(1), *waits(10)]
    samples = [
        span(names.SAMPLE, at, at + (90 if at == 500 else 10), arg=at, value=1.0)
        for at in range(0, 1000, 100)
    ]
    fetches = [span(names.WORKER_FETCH, 0, 1000, cpu=(0, 0))]

    found = folded(
        [trained(main)], (process(10), main), (process(11), [worker(0, 1), *samples, *fetches])
    )

    assert found.sample_ms == {"p50": 10.0, "p95": 90.0, "p99": 90.0, "max": 90.0}
    assert found.slow_samples[0] == SlowSample(500, 90.0, 0)
    assert found.tail_share == pytest.approx(0.09)
    assert len(found.slow_samples) == 10


def test_slow_batches_and_what_they_take_beyond_the_median() -> None:
    main = [loader(1), *waits(10)]
    # The first of a worker tells of no other; then eight of 10 ms and one of 90.
    fetches = [
        span(names.WORKER_FETCH, at, at + {0: 80, 500: 90}.get(at, 10), cpu=(0, 0))
        for at in range(0, 1000, 100)
    ]

    found = folded([trained(main)], (process(10), main), (process(11), [worker(0, 1), *fetches]))

    assert found.batches == 10
    assert found.batch_ms == {"p50": 10.0, "p95": 90.0, "p99": 90.0, "max": 90.0}
    assert found.slow_batch_share == pytest.approx(80 / 170)


def test_without_workers_the_first_batch_of_a_pass_tells_of_no_other() -> None:
    events = [made.iter_(0, 0), loader(0), *waits(3)]

    found = folded([trained(events)], (process(10), events))

    assert found.batches == 3
    assert found.batch_ms == {"p50": 60.0, "p95": 60.0, "p99": 60.0, "max": 60.0}
    assert found.slow_batch_share == 0.0


def test_an_item_that_is_slow_each_time_is_told_once() -> None:
    main = [loader(1), *waits(4)]
    again = [span(names.SAMPLE, at, at + 50, arg=7, value=1.0) for at in (0, 100, 200)]
    fetch = [span(names.WORKER_FETCH, 0, 300, cpu=(0, 0))]

    found = folded(
        [trained(main)], (process(10), main), (process(11), [worker(0, 1), *again, *fetch])
    )

    assert found.slow_samples == (SlowSample(7, 50.0, 0),)


def test_thinned_samples_and_transforms_stand_for_others() -> None:
    main = [loader(1), *waits(4)]
    work = [
        worker(0, 1),
        mark(names.TRANSFORM_NAME, 0, 3, "Crop\tphotos.py\t9"),
        span(names.TRANSFORM, 0, 4, 3, value=20.0, cpu=(0, 3)),
        span(names.SAMPLE, 0, 5, 1, value=20.0),
        span(names.WORKER_FETCH, 0, 100, 0, cpu=(0, 80)),
        span(names.WORKER_FETCH, 100, 200, 1, cpu=(80, 160)),
    ]

    found = folded([trained(main)], (process(10), main), (process(11), work))

    assert found.samples == 20
    (crop,) = found.transforms
    assert (crop.name, crop.calls, crop.wall_ms, crop.cpu_ms) == ("Crop", 20, 40.0, 30.0)


def test_only_what_lies_within_the_loop_counts() -> None:
    main = [loader(1), *waits(2)]
    late = [span(names.WORKER_FETCH, 5000, 5080, 9, cpu=(0, 1))]
    work = [worker(0, 1), *batches(2, 100, fetch=80, collate=20, cpu=30), *late]

    found = folded([trained(main)], (process(10), main), (process(11), work))

    assert found.batches == 2


def test_other_loaders_do_not_mix_in() -> None:
    main = [loader(1), *waits(4)]
    mine = [worker(0, 1), *batches(4, 100, fetch=80, collate=20, cpu=30)]
    theirs = [worker(0, 1, line=99), *batches(4, 100, fetch=10, collate=0, cpu=0)]
    strangers = [worker(0, 1, parent=77), *batches(4, 100, fetch=10, collate=0, cpu=0)]

    found = folded(
        [trained(main)],
        (process(10), main), (process(11), mine), (process(12), theirs), (process(13), strangers),
    )  # fmt: skip

    assert found.batches == 4
    assert stage(found, "dataset").wall_ms == 60.0


def test_what_a_pin_thread_receives_is_told_apart() -> None:
    main = [
        loader(1),
        *waits(4, inside=[span(names.DESERIALISE, 50, 55, cpu=(0, 5))]),
        *[span(names.PIN, at, at + 8, cpu=(0, 1), track=PIN_THREAD) for at in (10, 110)],
    ]
    work = [worker(0, 1), *batches(4, 100, fetch=80, collate=20, cpu=30)]

    found = folded([trained(main)], (process(10), main), (process(11), work))

    assert (stage(found, "deserialise").where, stage(found, "deserialise").wall_ms) == ("main", 5.0)
    assert (stage(found, "pin").where, stage(found, "pin").wall_ms) == ("pin", 8.0)


def test_messages_that_are_no_batches_do_not_count() -> None:
    failed = int(Flag.FAILED)
    main = [
        loader(1),
        *waits(4, inside=[span(names.DESERIALISE, 5, 6, flags=failed, cpu=(0, 1))]),
    ]
    work = [worker(0, 1), *batches(4, 100, fetch=80, collate=20, cpu=30)]
    work.append(span(names.WORKER_FETCH, 390, 395, 4, flags=failed))

    found = folded([trained(main)], (process(10), main), (process(11), work))

    assert found.batches == 4
    assert [one.name for one in found.stages] == ["dataset", "collate", "serialise"]


def test_starting_workers_lasts_until_the_first_batch() -> None:
    events = [
        made.iter_(0, 50),
        loader(2, at=50),
        *[shifted(event, 50) for event in waits(4)],
        made.iter_(500, 530),
        loader(2, at=530),
        *[shifted(event, 530) for event in waits(4)],
    ]
    # The kernel tells the start of a spawned process up to 10 ms too early.
    starts = [(11, 0, 20), (12, 1, 25), (13, 0, 495), (14, 1, 510)]
    workers = [
        (
            process(pid),
            [
                worker(number, 2),
                span(names.WORKER_START, at, at + 60),
                *[shifted(e, at + 60) for e in batches(2, 100, fetch=80, collate=0, cpu=30)],
                mark(names.PROCESS_EXIT, at + 300, text="end"),
            ],
        )
        for pid, number, at in starts
    ]

    found = folded([trained(events)], (process(10), events), *workers)

    assert found.starts == 2
    assert found.startup_ms == pytest.approx((110 + 90) / 2)


def test_ranks_are_averaged() -> None:
    told = []
    loops = []
    for rank, pid in ((0, 10), (1, 20)):
        main = [loader(1), *waits(4)]
        fold = LoopFold(rank, pid, 0)
        fold.update(made.batch(main))
        loop = fold.get()
        assert loop is not None
        loops.append(loop)
        work = [worker(0, 1, parent=pid), *batches(4, 100, fetch=80, collate=20, cpu=30)]
        told += [(process(pid, rank=rank), main), (process(pid + 1, rank=rank), work)]

    found = folded(loops, *told)

    assert found.batches == 8
    assert stage(found, "dataset").utilisation == pytest.approx(0.6)


def test_a_very_long_run_stays_small_and_keeps_its_sums() -> None:
    sums = TimedSums()
    for second in range(20_000):
        sums.add(second * 1_000_000_000, "fetch", 5.0, 2.0)

    (found,) = sums.within([(0, 20_000_000_000_000)]).values()
    (half,) = sums.within([(0, 10_000_000_000_000)]).values()

    assert len(sums._buckets) <= 1024
    assert found == Sum(20_000, 100_000.0, 100_000.0, 40_000.0)
    assert half.calls == pytest.approx(10_000, rel=0.005)
