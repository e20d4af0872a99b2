"""Event files, read back with the official package."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from stepscope.model.watching import Reading
from stepscope.notify.sink import HearsAlerts, MetricsSink, SinkError
from stepscope.notify.tensorboard import TensorBoardSink, Thinning, make
from tests.unit.notify.exports import ALERT, RESOLVED, context, options

NOW = 1_700_000_000.0


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[TensorBoardSink]:
    with contextlib.closing(make(options("tensorboard"), context(tmp_path))) as made:
        yield made


def read(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return found


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in read(folder).Scalars(tag)]


def test_metrics_are_scalars_by_their_step_and_can_be_read_while_the_run_goes_on(
    sink: TensorBoardSink, tmp_path: Path
) -> None:
    assert isinstance(sink, MetricsSink)
    sink.update([Reading(1, "loss", 2.5, step=10)], NOW)
    assert scalars(tmp_path, "stepscope/loss") == [(10, 2.5)]
    sink.update([Reading(2, "loss", 1.25, step=20)], NOW + 10)
    assert scalars(tmp_path, "stepscope/loss") == [(10, 2.5), (20, 1.25)]
    (first, _) = read(tmp_path).Scalars("stepscope/loss")
    assert first.wall_time == NOW


def test_readings_without_a_step_are_at_the_last_one_of_their_rank(
    sink: TensorBoardSink, tmp_path: Path
) -> None:
    sink.update([Reading(1, "steps_total", 40.0), Reading(1, "steps_total", 38.0, rank=1)], NOW)
    sink.update([Reading(2, "memory_bytes", 1e9), Reading(2, "memory_bytes", 2e9, rank=1)], NOW)
    assert scalars(tmp_path, "stepscope/memory_bytes") == [(40, 1e9)]
    assert scalars(tmp_path, "stepscope/memory_bytes/rank-1") == [(38, 2e9)]


def test_labels_are_part_of_the_tag(sink: TensorBoardSink, tmp_path: Path) -> None:
    sink.update(
        [Reading(1, "phase_ratio", 0.5, "backward"), Reading(1, "gpu_power_watts", 250.0, "0")], NOW
    )
    assert set(read(tmp_path).scalars.Keys()) == {
        "stepscope/phase_ratio/backward",
        "stepscope/gpu_power_watts/0",
    }


def test_values_that_are_no_numbers_or_too_large_arrive(
    sink: TensorBoardSink, tmp_path: Path
) -> None:
    values = {"nan": math.nan, "inf": math.inf, "huge": -1e300, "tiny": 1e-300}
    sink.update([Reading(1, name, value) for name, value in values.items()], NOW)
    found = {name: scalars(tmp_path, f"stepscope/{name}")[0][1] for name in values}
    assert math.isnan(found.pop("nan"))
    assert found == {"inf": math.inf, "huge": -math.inf, "tiny": 0.0}


def test_a_hostile_name_is_a_tag_like_any_other(sink: TensorBoardSink, tmp_path: Path) -> None:
    sink.update([Reading(1, "\ud800" + "x" * 10_000, 1.0), Reading(1, "a\nb", 2.0)], NOW)
    (long, lines) = sorted(read(tmp_path).scalars.Keys(), key=len, reverse=True)
    assert long.startswith("stepscope/?xx")
    assert lines == "stepscope/a\nb"


def test_an_alert_is_a_text_at_its_step(sink: TensorBoardSink, tmp_path: Path) -> None:
    assert isinstance(sink, HearsAlerts)
    sink.alert(ALERT)
    sink.alert(RESOLVED)
    found = read(tmp_path)
    summary = found.SummaryMetadata("stepscope/alerts/slowdown")
    assert summary.plugin_data.plugin_name == "text"
    begin, end = found.Tensors("stepscope/alerts/slowdown")
    (text,) = tensor_util.make_ndarray(begin.tensor_proto)
    assert begin.step == 120
    assert text.decode().startswith("Steps take 40 % longer at train.py:12")
    assert "Cache the files." in text.decode()
    (text,) = tensor_util.make_ndarray(end.tensor_proto)
    assert text.decode().startswith("over: ")


def test_an_alert_before_the_first_step_is_at_the_furthest_that_is_known(
    sink: TensorBoardSink, tmp_path: Path
) -> None:
    sink.update([Reading(1, "steps_total", 7.0, rank=2)], NOW)
    sink.alert(replace(ALERT, step=None))
    (found,) = read(tmp_path).Tensors("stepscope/alerts/slowdown")
    assert found.step == 7


def test_the_file_is_where_it_is_wished_and_begins_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGS", str(tmp_path / "{braces}"))
    with contextlib.closing(
        make(options("tensorboard", folder="$LOGS/mine"), context(tmp_path))
    ) as sink:
        sink.update([Reading(1, "loss", 1.0)], NOW)
    (file,) = (tmp_path / "{braces}" / "mine").iterdir()
    assert file.name == "events.out.tfevents.1700000000.box.4711.stepscope"
    version, event = EventFileLoader(str(file)).Load()
    assert version.file_version == "brain.Event:2"
    assert len(event.summary.value) == 1


def test_a_full_disk_leaves_no_torn_record_and_goes_on_when_there_is_room(
    sink: TensorBoardSink, tmp_path: Path
) -> None:
    sink.update([Reading(1, "loss", 1.0, step=1)], NOW)
    (file,) = (tmp_path / "tensorboard").iterdir()
    size = file.stat().st_size
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
        with pytest.raises(SinkError, match="cannot be written"):
            sink.update([Reading(2, "loss", 2.0, step=2)], NOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert file.stat().st_size == size
    sink.update([Reading(3, "loss", 3.0, step=3)], NOW)
    assert scalars(tmp_path, "stepscope/loss") == [(1, 1.0), (3, 3.0)]


def test_a_folder_that_cannot_be_made_is_a_trouble_of_the_sink_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sink = make(options("tensorboard", folder=str(tmp_path / "file")), context(tmp_path))
    with pytest.raises(SinkError, match="cannot be written"):
        sink.update([Reading(1, "loss", 1.0)], NOW)
    sink.close()


def test_what_is_written_stays_within_its_room_and_covers_all_of_a_long_run() -> None:
    thinning, size, written = Thinning(100_000), 0, []
    for at in range(200_000):  # of 100 bytes: 200 times the room
        if thinning.is_turn(size):
            size += 100
            written.append(at)
    assert size <= 100_000
    assert written[:500] == list(range(500))  # half of the room: every one
    assert written[500:750] == list(range(503, 1503, 4))  # a quarter: every fourth
    assert written[-1] > 100_000


def test_the_descriptor_is_given_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the count is all that is wanted
    sink = make(options("tensorboard"), context(tmp_path))
    sink.update([Reading(1, "loss", 1.0)], NOW)
    sink.close()
    sink.close()
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
