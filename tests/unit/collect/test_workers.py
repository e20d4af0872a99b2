"""Inside loaders, in this process. What workers do in theirs: integration/test_pipeline.py."""

from __future__ import annotations

import pickle
import queue
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, dataloader
from torch.utils.data._utils import pin_memory, worker
from torch.utils.data._utils.worker import _IterableDatasetStopIteration, _ResumeIteration

from stepscope.collect.envelope import Envelope, Sender, payload_bytes
from stepscope.collect.loader import LoaderCollector
from stepscope.collect.samples import (
    BATCH_BUDGET,
    BATCH_NS,
    BUDGET,
    RATE_NS,
    Pace,
    SampleTimer,
)
from stepscope.collect.thread_use import ThreadUse, UseInBatches
from stepscope.collect.transforms import transforms_of
from stepscope.collect.worker_loop import WorkerLoop
from stepscope.collect.workers import WorkersCollector
from stepscope.model import names
from stepscope.model.event import Row
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started

MS = 1_000_000


class Slow(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.006)
        return torch.tensor(index)


class Whole(Slow):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        assert type(indices) is list
        return [torch.tensor(index) for index in indices]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        for number in range(5):
            time.sleep(0.006)
            yield number


class Doubles:
    def __call__(self, x: Any) -> Any:
        return x * 2


class Quadruples(Doubles):
    def __call__(self, x: Any) -> Any:
        return super().__call__(super().__call__(x))


class Compose:
    def __init__(self, transforms: list[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


def add_one(x: Any) -> Any:
    return x + 1


class Transformed(Slow):
    def __init__(self) -> None:
        self.transform = Compose([Doubles(), Quadruples(), add_one])

    def __getitem__(self, index: int) -> Any:
        return self.transform(super().__getitem__(index))


def inside(rows: list[Row], outer: Row) -> list[Row]:
    end_ns = outer.time_ns + outer.duration_ns
    return [row for row in rows if outer.time_ns <= row.time_ns <= end_ns and row is not outer]


def test_samples_and_collate_lie_within_the_wait(started: Started, read: Read) -> None:
    started(LoaderCollector())
    started(WorkersCollector())

    batches = [batch.tolist() for batch in DataLoader(Slow(), batch_size=3)]

    assert batches == [[0, 1, 2], [3, 4, 5]]
    rows = read()
    first, second, _ = [row for row in rows if row.name == names.INPUT_NEXT]
    for outer, items in ((first, [0, 1, 2]), (second, [3, 4, 5])):
        within = inside(rows, outer)
        samples = [row for row in within if row.name == names.SAMPLE]
        assert [(row.arg, row.value) for row in samples] == [(item, 1.0) for item in items]
        assert all(row.duration_ns >= 6 * MS for row in samples)
        (collate,) = [row for row in within if row.name == names.COLLATE]
        assert collate.time_ns >= samples[-1].time_ns + samples[-1].duration_ns


def test_a_stream_that_ends_within_a_batch_has_as_many_samples_as_items(
    started: Started, read: Read
) -> None:
    started(WorkersCollector())

    batches = [batch.tolist() for batch in DataLoader(Stream(), batch_size=2)]

    assert batches == [[0, 1], [2, 3], [4]]
    samples = [row for row in read(names.SAMPLE) if not row.flags]
    assert [row.arg for row in samples] == [-1] * 5


def test_items_that_come_one_by_one_are_samples(started: Started, read: Read) -> None:
    started(WorkersCollector())

    items = [item.item() for item in DataLoader(Slow(), batch_size=None)]

    assert items == list(range(6))
    samples = read(names.SAMPLE)
    assert [(row.arg, row.flags) for row in samples] == [(item, 0) for item in items]


def test_a_dataset_that_makes_whole_batches_gets_a_plain_list(started: Started, read: Read) -> None:
    started(WorkersCollector())

    batches = [batch.tolist() for batch in DataLoader(Whole(), batch_size=4)]

    assert batches == [[0, 1, 2, 3], [4, 5]]
    rows = read()
    assert names.COLLATE in {row.name for row in rows}
    assert names.SAMPLE not in {row.name for row in rows}


def test_the_use_of_each_batch_is_summed_up(started: Started, read: Read) -> None:
    started(WorkersCollector())

    list(DataLoader(Slow(), batch_size=3))

    delays = read(names.WORKER_RUN_DELAY_NS)
    assert [row.arg for row in delays[1:]] == [delays[0].arg + 1]
    assert delays[1].value >= delays[0].value >= 0


def test_batches_of_a_worker_arrive_as_they_are(started: Started, read: Read) -> None:
    started(WorkersCollector())

    batches = [batch.tolist() for batch in DataLoader(Slow(), batch_size=3, num_workers=1)]

    assert batches == [[0, 1, 2], [3, 4, 5]]
    assert len([row for row in read(names.DESERIALISE) if not row.flags]) == 2


def test_transforms_are_timed_and_left_as_they_are(started: Started, read: Read) -> None:
    started(WorkersCollector())
    dataset = Transformed()
    function = dataset.transform.transforms[2]

    batches = [batch.tolist() for batch in DataLoader(dataset, batch_size=3)]

    assert batches == [[1, 9, 17], [25, 33, 41]]
    rows = read()
    told = {row.arg: row.text.split("\t") for row in rows if row.name == names.TRANSFORM_NAME}
    assert [words[0] for words in told.values()] == ["Doubles", "Quadruples"]
    assert all(words[1] == __file__ for words in told.values())
    calls = [told[row.arg][0] for row in rows if row.name == names.TRANSFORM]
    # As many samples as are affordable, which depends on what a span costs now.
    assert 1 <= calls.count("Quadruples") <= 6
    assert calls.count("Doubles") == calls.count("Quadruples"), "not that within Quadruples"
    assert dataset.transform.transforms[2] is function is add_one
    assert isinstance(pickle.loads(pickle.dumps(dataset)), Transformed)


def test_a_second_iteration_knows_its_transforms(started: Started, read: Read) -> None:
    started(WorkersCollector())
    loader: Any = DataLoader(Transformed(), batch_size=3)

    list(loader)
    list(loader)

    assert len(read(names.TRANSFORM_NAME)) == 2


@pytest.mark.parametrize(
    ("dataset", "found"),
    [
        (Transformed(), ["Doubles", "Quadruples", "add_one"]),
        (Subset(Transformed(), [0]), ["Doubles", "Quadruples", "add_one"]),
        (Slow(), []),
        ([1, 2], []),
    ],
)
def test_transforms_are_found_through_what_stands_around_them(
    dataset: Any, found: list[str]
) -> None:
    held = [transform for transform, _ in transforms_of(dataset)]

    assert [getattr(one, "__name__", type(one).__name__) for one in held] == found


def test_properties_of_a_dataset_are_not_run() -> None:
    class Odd(Slow):
        @property
        def transform(self) -> Any:
            raise AssertionError("ours to leave alone")

    assert transforms_of(Odd()) == []


def test_stopping_puts_everything_back(recorder: Recorder) -> None:
    def standing() -> list[Any]:
        return [
            worker._worker_loop,
            dataloader._DatasetKind.create_fetcher,
            vars(dataloader._SingleProcessDataLoaderIter).get("_next_index"),
            dataloader.DataLoader._get_iterator,
            pin_memory.pin_memory,
            Doubles.__call__,
        ]

    before = standing()
    collector = WorkersCollector()
    collector.start(recorder)
    list(DataLoader(Transformed(), batch_size=3))
    assert [now is then for now, then in zip(standing(), before, strict=True)] == [False] * 6

    collector.stop()

    assert standing() == before


@pytest.mark.parametrize("workers", [0, 1])
def test_a_recorder_that_always_fails_changes_nothing(
    started: Started, recorder: Recorder, workers: int
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("broken on purpose")

    started(WorkersCollector())
    for call in ("begin", "end", "complete", "sample", "mark"):
        setattr(recorder, call, broken)

    for dataset, expected in ((Slow(), [0, 1, 2]), (Transformed(), [1, 9, 17])):
        loader: Any = DataLoader(dataset, batch_size=3, num_workers=workers)
        assert next(iter(loader)).tolist() == expected

    assert recorder.failures


def test_the_outermost_pin_is_a_span(started: Started, read: Read) -> None:
    class Pinned:
        def pin_memory(self) -> str:
            return "pinned"

    started(WorkersCollector())

    assert pin_memory.pin_memory([Pinned(), (Pinned(), "text")]) == ["pinned", ("pinned", "text")]
    assert len(read(names.PIN)) == 1


# ---- envelopes ----


def test_an_envelope_is_its_batch_when_it_arrives(started: Started, recorder: Recorder) -> None:
    started(WorkersCollector())
    batch = {"x": [1, 2], "y": "z"}

    message = ForkingPickler.dumps((3, Envelope(batch, Sender(recorder))))

    assert pickle.loads(message) == (3, batch)


def test_sending_ends_the_span_and_tells_the_bytes(recorder: Recorder, read: Read) -> None:
    sender = Sender(recorder)
    sent: list[Any] = []
    batch = torch.zeros(1000)

    message = ForkingPickler.dumps((0, Envelope([batch, {"a": batch}], sender)))
    sender.sending(sent.append)(message)
    sender.sending(sent.append)(b"no batch")

    (row,) = read(names.SERIALISE)
    assert row.arg == 8000 + len(message)
    assert sent == [message, b"no batch"]


def test_a_batch_that_contains_itself_does_not_hang() -> None:
    endless: list[Any] = [torch.zeros(2)]
    endless.append(endless)

    assert payload_bytes(endless) >= 8


# ---- a worker's loop, with queues of this process ----


class Put:
    """The worker's end of a queue, feeder thread and all."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._send_bytes: Callable[..., Any] = self.messages.append

    def put(self, message: Any) -> None:
        self._send_bytes(ForkingPickler.dumps(message))


def run_loop(loop: Callable[..., Any], tasks: list[Any], dataset: Any, kind: int = 0) -> Put:
    """torch's arguments of a worker, with these tasks."""
    index_queue: queue.Queue[Any] = queue.Queue()
    for task in tasks:
        index_queue.put(task)
    data_queue = Put()
    loop(
        kind, dataset, index_queue, data_queue, None, True, torch.stack, False, 0, None, 1, 2,
        False, None,
    )  # fmt: skip
    return data_queue


def stateful_loop(*args: Any) -> None:
    """As torchdata's: tasks and results carry the state along."""
    kind, dataset, index_queue, data_queue, _, auto_collation, collate_fn, drop_last = args[:8]
    fetcher = dataloader._DatasetKind.create_fetcher(
        kind, dataset, auto_collation, collate_fn, drop_last
    )
    while True:
        task = index_queue.get(timeout=1)
        if task is None:
            return
        if isinstance(task, _ResumeIteration):
            data_queue.put((task, None))
            continue
        number, (index, snapshot) = task
        if index is None:
            data_queue.put((number, (_IterableDatasetStopIteration(1), 1, None)))
        else:
            data_queue.put((number, (fetcher.fetch(index), 1, {"state": snapshot})))


@pytest.fixture
def torchdata(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stands in for torchdata, which may not be installed: two modules that know one loop."""
    modules = [
        ModuleType(f"torchdata.stateful_dataloader.{name}")
        for name in ("worker", "stateful_dataloader")
    ]
    for module in modules:
        module._worker_loop = stateful_loop  # type: ignore[attr-defined]
    for module in (ModuleType("torchdata"), ModuleType("torchdata.stateful_dataloader"), *modules):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return modules[1]


def test_the_loop_of_torchdata_is_watched_too(
    torchdata: ModuleType, started: Started, read: Read
) -> None:
    started(WorkersCollector())
    tasks = [_ResumeIteration(None), (0, ([4, 5], True)), (1, (None, False)), None]

    sent = run_loop(torchdata._worker_loop, tasks, Slow())

    resumed, batch, ended = [pickle.loads(message) for message in sent.messages]
    assert isinstance(resumed[0], _ResumeIteration)
    assert (batch[0], batch[1][0].tolist(), batch[1][1:]) == (0, [4, 5], (1, {"state": True}))
    assert isinstance(ended[1][0], _IterableDatasetStopIteration)
    rows = read()
    assert [(row.arg, row.flags) for row in rows if row.name == names.WORKER_FETCH] == [
        (0, 0),
        (1, 1),
    ]
    assert len([row for row in rows if row.name == names.SERIALISE]) == 1
    assert len([row for row in rows if row.name == names.WORKER_IDLE]) == 4
    assert len([row for row in rows if row.name == names.WORKER_START]) == 1
    assert [row.arg for row in rows if row.name == names.SAMPLE] == [4, 5]
    (mark,) = [row for row in rows if row.name == names.WORKER]
    assert mark.arg == 1


def test_messages_of_torch_travel_without_an_envelope(
    torchdata: ModuleType, started: Started
) -> None:
    started(WorkersCollector())
    tasks = [_ResumeIteration(None), (1, (None, False)), None]

    sent = run_loop(torchdata._worker_loop, tasks, Slow())

    assert [b"envelope" in bytes(message) for message in sent.messages] == [False, False]


# ---- how much is recorded ----


def test_slow_samples_are_all_recorded() -> None:
    pace = Pace(look_ns=200.0, span_ns=1000.0)

    pace.update(lasted_ns=64 * 5 * MS, samples=64, spans_each=4)

    assert (pace.every, pace.batches) == (1, 1)


@pytest.mark.parametrize("sample_ns", [1_000, 10_000, 100_000, 999_999])
def test_looking_stays_within_its_budget(sample_ns: int) -> None:
    pace = Pace(look_ns=200.0, span_ns=1000.0)

    pace.update(sample_ns * 64, samples=64, spans_each=4)

    assert 200.0 / pace.batches <= BUDGET * sample_ns
    assert 4 * 1000.0 / pace.every <= BUDGET * sample_ns
    assert pace.every * sample_ns >= RATE_NS


def test_a_slow_one_among_fast_ones_is_kept(recorder: Recorder, read: Read) -> None:
    pace = Pace(look_ns=0.0, span_ns=0.0)
    pace.update(64 * 20_000, samples=64, spans_each=1)
    timer = SampleTimer(recorder, pace)

    for index in timer.indices(list(range(100))):
        if index == 33:
            time.sleep(0.01)

    rows = read(names.SAMPLE)
    assert {row.arg: row.value for row in rows}[33] == 1.0
    assert sum(row.value for row in rows) + pace.untold == 100
    assert len(rows) <= 100 / pace.every + 9


def test_samples_of_batches_that_nobody_looked_at_count_too(recorder: Recorder, read: Read) -> None:
    pace = Pace(look_ns=500.0, span_ns=1000.0)
    pace.update(64 * 20_000, samples=64, spans_each=1)
    timer = SampleTimer(recorder, pace)

    for _ in range(200):
        for _ in timer.indices(list(range(50))):
            pass

    rows = read(names.SAMPLE)
    assert pace.batches == 5
    assert sum(row.value for row in rows) + pace.untold == 200 * 50


def test_indices_that_are_no_numbers_are_not_known(recorder: Recorder, read: Read) -> None:
    timer = SampleTimer(recorder, Pace(0.0, 0.0))
    odd = ["key", (1, 2), 1 << 70, torch.tensor(4), 3]

    assert list(timer.indices(odd)) == odd

    assert [row.arg for row in read(names.SAMPLE)] == [-1, -1, -1, 4, 3]


@pytest.mark.parametrize("batch_ns", [20_000, 300_000, 6 * MS])
def test_short_batches_are_timed_rarely(batch_ns: int) -> None:
    pace = Pace(0.0, 0.0)
    pace.batch_took(batch_ns)

    timed = sum(pace.next_is_timed() for _ in range(pace.timed * 10))

    assert timed == 10
    assert BATCH_NS / pace.timed <= BATCH_BUDGET * batch_ns


def test_use_is_known_only_where_both_ends_are() -> None:
    assert ThreadUse(5, -1, 9).since(ThreadUse(3, 4, -1)) == ThreadUse(2, -1, -1)


def test_reading_a_file_is_seen(tmp_path: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(100_000))
    use = UseInBatches()
    before = use.now()

    path.read_bytes()

    if before.read_chars < 0:
        pytest.skip("this kernel does not count what a thread reads")
    assert use.add(before).read_chars >= 100_000
    assert use.batches == 1


def test_writing_a_file_is_seen(tmp_path: Any) -> None:
    use = UseInBatches()
    before = use.now()

    (tmp_path / "data").write_bytes(bytes(1 << 20))

    if before.write_bytes < 0:
        pytest.skip("this kernel does not count what a thread writes")
    written = use.now().since(before).write_bytes
    assert written == 0 or written >= 1 << 20  # 0: the folder is in memory


def test_system_time_is_that_of_this_thread() -> None:
    use = UseInBatches()
    before = use.now()
    if before.system_ns < 0:
        pytest.skip("this system does not tell threads apart")

    end = time.thread_time() + 0.1
    with Path("/dev/zero").open("rb", buffering=0) as zeros:
        while time.thread_time() < end:
            zeros.read(1 << 20)

    # The kernel counts by ticks.
    assert 20_000_000 < use.now().since(before).system_ns < 200_000_000


def test_partial_functions_are_functions() -> None:
    dataset = Slow()
    dataset.transform = partial(add_one)

    ((found, _),) = transforms_of(dataset)

    assert found is dataset.transform


class Asked:
    """A batch sampler that notes whether the workers started with it are short-lived."""

    def __init__(self, collector: WorkersCollector) -> None:
        self.collector = collector
        self.answers: list[bool] = []

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[list[int]]:
        self.answers.append(self.collector.are_short_lived)
        return iter([[0]])


def test_workers_of_all_but_the_first_iterations_may_be_short_lived(started: Started) -> None:
    # GIVEN
    collector = WorkersCollector()
    started(collector)
    asked = Asked(collector)
    loader: Any = DataLoader(Whole(), batch_sampler=asked)

    # WHEN
    for _ in range(6):
        iter(loader)

    # THEN
    assert asked.answers == [False] * 4 + [True] * 2
    assert not collector.are_short_lived, "no worker is being started now"


def test_a_worker_does_what_only_pays_off_in_a_long_life_when_it_is_old(
    recorder: Recorder,
) -> None:
    # GIVEN
    done: list[str] = []
    for name, age_ns in (("old", 0), ("young", 1 << 60)):
        loop = WorkerLoop(recorder, stateful=False)
        loop.call_when_old(age_ns, partial(done.append, name))
        tasks: Any = queue.Queue()
        loop.attach(tasks, queue.Queue())

        # WHEN it asks for a task twice
        for _ in range(2):
            tasks.put(None)
            tasks.get()

    # THEN it is done once
    assert done == ["old"]
