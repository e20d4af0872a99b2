"""The GPU, through stand-ins at the driver's interface: there is none where these tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect.gpu import AbsentGpus, AllocatorSource, find_gpus
from stepscope.collect.timeline import DEVICE_TRACKS, CudaTimeline
from stepscope.model import names
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from tests.unit.collect.conftest import Read

MS = 1_000_000


class Clock:
    """The host's clock; the tests move it."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu
        self.passed_ns: int | None = None

    def record(self) -> None:
        """The device passes it when it has done the work that was queued before."""
        gpu = self._gpu
        self.passed_ns = gpu.queue(0)

    def query(self) -> bool:
        return self.passed_ns is not None and self._gpu.clock.now >= self.passed_ns

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.passed_ns is not None
        assert end.passed_ns is not None
        assert self.query()
        assert end.query(), "asked before the device passed it: CUDA would raise"
        return (end.passed_ns - self.passed_ns) / 1e6


class FakeGpu:
    """A stream that works off what the host queues, in order."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.free_ns = 0
        self.in_use = True
        self.events = 0

    def queue(self, work_ns: int) -> int:
        self.free_ns = max(self.free_ns, self.clock.now) + work_ns
        return self.free_ns

    def device(self) -> int | None:
        return 1 if self.in_use else None

    def event(self) -> FakeEvent:
        self.events += 1
        return FakeEvent(self)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    core: Any = TwinCore(clock, clock)
    return Recorder(core)


@pytest.fixture
def gpu(clock: Clock) -> FakeGpu:
    return FakeGpu(clock)


def work(spans: Recorder, gpu: FakeGpu, name: str, host_ns: int, device_ns: int) -> None:
    """A phase that keeps the host for a while and queues more work than that."""
    token = spans.begin(spans.intern(name))
    gpu.queue(device_ns)
    gpu.clock.now += host_ns
    spans.end(token)


def on_device(read: Read) -> list[tuple[str, int, int, int]]:
    return [
        (row.name, row.time_ns, row.duration_ns, row.track)
        for row in read()
        if row.name.startswith(names.DEVICE_PREFIX)
    ]


def test_device_spans_stand_where_the_device_worked(
    recorder: Recorder, gpu: FakeGpu, read: Read
) -> None:
    timeline = CudaTimeline(recorder, gpu)
    spans = timeline.recorder()

    work(spans, gpu, names.FORWARD, host_ns=2 * MS, device_ns=10 * MS)
    work(spans, gpu, names.BACKWARD, host_ns=3 * MS, device_ns=20 * MS)
    assert on_device(read) == [], "the device has passed nothing yet, and nobody waits for it"
    gpu.clock.now = 40 * MS
    timeline.poll()

    track = DEVICE_TRACKS + 1
    assert on_device(read) == [
        ("device.forward", 0, 10 * MS, track),
        ("device.backward", 10 * MS, 20 * MS, track),
    ]
    host = [(row.name, row.time_ns, row.duration_ns) for row in read() if "device" not in row.name]
    assert host == [("forward", 0, 2 * MS), ("backward", 2 * MS, 3 * MS)]


def test_the_clocks_are_aligned_by_the_event_that_waited_least(
    recorder: Recorder, gpu: FakeGpu, read: Read
) -> None:
    timeline = CudaTimeline(recorder, gpu)
    spans = timeline.recorder()
    gpu.queue(50 * MS)  # the device is behind when the first span begins
    work(spans, gpu, names.FORWARD, host_ns=1 * MS, device_ns=5 * MS)
    gpu.clock.now = 100 * MS  # then it has nothing to do
    work(spans, gpu, names.FORWARD, host_ns=10 * MS, device_ns=5 * MS)
    gpu.clock.now = 200 * MS
    work(spans, gpu, names.FORWARD, host_ns=10 * MS, device_ns=5 * MS)
    timeline.poll()

    # The second span's begin reached an idle device at once: from there on both clocks agree.
    assert on_device(read)[-1][1:3] == (200 * MS, 10 * MS)


def test_long_runs_count_from_younger_anchors(recorder: Recorder, gpu: FakeGpu, read: Read) -> None:
    timeline = CudaTimeline(recorder, gpu)
    spans = timeline.recorder()
    for second in range(0, 100, 5):
        gpu.clock.now = second * 1000 * MS
        work(spans, gpu, names.FORWARD, host_ns=4 * MS, device_ns=3 * MS)

    last = on_device(read)[-1]
    assert last[1:3] == (95_000 * MS, 4 * MS)


def test_events_are_used_again(recorder: Recorder, gpu: FakeGpu) -> None:
    spans = CudaTimeline(recorder, gpu).recorder()
    for _ in range(100):
        work(spans, gpu, names.FORWARD, host_ns=2 * MS, device_ns=1 * MS)

    assert gpu.events <= 4


def test_a_device_that_never_answers_does_not_fill_the_memory(
    recorder: Recorder, gpu: FakeGpu
) -> None:
    spans = CudaTimeline(recorder, gpu).recorder()
    gpu.queue(10**15)
    for _ in range(6000):
        work(spans, gpu, names.FORWARD, host_ns=1, device_ns=0)

    assert gpu.events < 9000


def test_without_the_device_only_the_host_is_recorded(
    recorder: Recorder, gpu: FakeGpu, read: Read
) -> None:
    spans = CudaTimeline(recorder, gpu).recorder()
    gpu.in_use = False

    work(spans, gpu, names.FORWARD, host_ns=1, device_ns=1)

    assert [row.name for row in read()] == ["forward"]
    assert gpu.events == 0


def test_spans_that_were_left_open_inside_are_dropped_with_the_outer_one(
    recorder: Recorder, gpu: FakeGpu, read: Read
) -> None:
    spans = CudaTimeline(recorder, gpu).recorder()
    outer = spans.begin(spans.intern(names.BACKWARD))
    spans.begin(spans.intern(names.FORWARD))
    spans.end(outer)
    work(spans, gpu, names.FORWARD, host_ns=1, device_ns=0)

    assert [name for name, *_ in on_device(read)] == ["device.backward", "device.forward"]


def test_a_device_that_fails_leaves_the_spans_of_the_host_whole(
    recorder: Recorder, gpu: FakeGpu, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(FakeEvent, "record", broken)
    spans = CudaTimeline(recorder, gpu).recorder()
    for _ in range(3):
        work(spans, gpu, names.FORWARD, host_ns=2, device_ns=1)

    assert [row.duration_ns for row in read(names.FORWARD)] == [2, 2, 2]
    assert not recorder.is_open(recorder.intern(names.FORWARD))
    assert recorder.failures["events of the device"] == 3


def test_a_forked_child_does_not_touch_the_events_of_its_parent(
    recorder: Recorder, gpu: FakeGpu, read: Read
) -> None:
    timeline = CudaTimeline(recorder, gpu)
    work(timeline.recorder(), gpu, names.FORWARD, host_ns=1, device_ns=5)
    gpu.clock.now += 100

    timeline.after_fork()
    timeline.poll()

    assert on_device(read) == []


ASK_THE_DRIVER = """
from stepscope.collect.gpu import find_gpus
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore

class Told(Recorder):
    def __init__(self):
        super().__init__(TwinCore())
        self.sample = lambda name, value, arg: print(self.core._text(name), arg, value)

source = find_gpus()
source.sample(Told())
source.close()
"""


def test_each_card_is_sampled_as_far_as_the_driver_tells(tmp_path: Path) -> None:
    """The real pynvml on a driver of our own: a library with NVML's C interface and two cards."""
    compiler = shutil.which("gcc") or pytest.skip("there is no compiler to build the stand-in with")
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    driver = tmp_path / "libnvidia-ml.so.1"
    source = Path(__file__).parents[2] / "standins" / "nvml.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", driver, source], check=True)

    told = subprocess.run(
        [sys.executable, "-c", ASK_THE_DRIVER],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    lines = [line.split() for line in told.splitlines()]
    samples = {(name, int(card)): float(value) for name, card, value in lines}
    assert samples == {
        (names.GPU_BUSY_SHARE, 0): 0.5,
        (names.GPU_BUSY_SHARE, 1): 0.75,
        (names.GPU_MEMORY_USED_BYTES, 0): float(1 << 30),
        (names.GPU_MEMORY_USED_BYTES, 1): float(2 << 30),
        (names.GPU_MEMORY_TOTAL_BYTES, 0): float(16 << 30),
        (names.GPU_MEMORY_TOTAL_BYTES, 1): float(16 << 30),
        (names.GPU_POWER_WATTS, 0): 250.0,  # the second card does not tell its power
        (names.GPU_TEMPERATURE_CELSIUS, 0): 60.0,
        (names.GPU_TEMPERATURE_CELSIUS, 1): 61.0,
        (names.GPU_CLOCK_SHARE, 0): 0.8,  # nor its highest clock
    }


def test_where_there_is_no_gpu_nothing_is_sampled(recorder: Recorder, read: Read) -> None:
    source = find_gpus()
    if not isinstance(source, AbsentGpus):
        pytest.skip("this machine has a GPU")

    source.sample(recorder)
    source.close()

    assert read() == []


def test_the_allocator_is_asked_once_a_second_and_only_when_cuda_runs(
    recorder: Recorder, clock: Clock, read: Read
) -> None:
    cuda = types.SimpleNamespace(
        is_initialized=lambda: clock.now > 0,
        device_count=lambda: 2,
        memory_reserved=lambda device: 100 if device == 0 else 0,
        memory_allocated=lambda device: 70,
    )
    source = AllocatorSource(recorder, cuda)

    for clock.now in (0, 1000 * MS, 1500 * MS, 2100 * MS):
        source()

    samples = [(row.name, row.value, row.arg) for row in read()]
    assert (
        samples
        == [
            (names.GPU_RESERVED_BYTES, 100.0, 0),
            (names.GPU_ALLOCATED_BYTES, 70.0, 0),
        ]
        * 2
    )
