"""Loaders of every kind, as they are and with us: the same batches, and where their time went."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.analyze.pipeline import PipelineFold
from stepscope.model import names
from stepscope.model.details import Pipeline, StageTime
from stepscope.store.frames import FramesReader
from tests.integration.joined import BOOTSTRAP, SOURCE, Ran, environment, run_joined

pytestmark = pytest.mark.timed

PIPELINES = Path(__file__).parent / "pipelines"
SLOW_ITEM = 21
# The tree under test before one that is installed.
PATH = f"{BOOTSTRAP}{os.pathsep}{SOURCE}"


def run(folder: Path, *arguments: str) -> Ran:
    ran = run_joined(folder, [str(PIPELINES / "train.py"), *arguments], PYTHONPATH=PATH)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert [row.text for one in ran.processes for row in one.named(names.HOOK_FAILED)] == []
    return ran


def pipeline(folder: Path, name: str, workers: int, context: str = "") -> Pipeline:
    return folded(folder, run(folder, name, str(workers), context), workers)


def folded(folder: Path, ran: Ran, workers: int) -> Pipeline:
    fold = PipelineFold()
    for path in sorted(folder.glob("rank-*/*.frames")):
        reader = FramesReader(path)
        for batch in reader.read_new():
            assert reader.process is not None
            fold.update(reader.process, batch)
    found = fold.get([ran.loop])
    assert found is not None
    assert found.workers == workers
    return found


def stages(found: Pipeline) -> dict[str, StageTime]:
    return {stage.name: stage for stage in found.stages}


def test_what_loaders_give_is_the_same_to_the_bit(tmp_path: Path) -> None:
    script = str(PIPELINES / "same.py")
    with subprocess.Popen(
        [sys.executable, script],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as bare:  # fmt: skip
        ran = run_joined(tmp_path / "run", [script], PYTHONPATH=PATH)
        stdout, stderr = bare.communicate(timeout=200)

    assert ran.stdout.splitlines() == stdout.splitlines()
    assert (ran.exit_code, ran.stderr, bare.returncode) == (0, stderr, 0)
    assert [row.text for one in ran.processes for row in one.named(names.HOOK_FAILED)] == []
    workers = [one for one in ran.processes if one.named(names.WORKER)]
    assert len(workers) >= 30
    assert all(len(one.named(names.WORKER_START)) == 1 for one in workers)


@pytest.mark.parametrize(
    ("workers", "context"),
    [
        (0, ""),
        (2, "fork"),
        pytest.param(1, "spawn", marks=pytest.mark.slow),
        pytest.param(1, "forkserver", marks=pytest.mark.slow),
    ],
)
def test_sleeps_are_found_where_they_are(tmp_path: Path, workers: int, context: str) -> None:
    found = pipeline(tmp_path / "run", "sleeps", workers, context)

    assert (found.batches, found.samples) == (20, 80)
    dataset, collate = stages(found)["dataset"], stages(found)["collate"]
    assert dataset.where == collate.where == ("worker" if workers else "main")
    # Four samples of 4 ms, and one of 40 takes 60 ms more: 22 ms a batch. Sleeps only get longer.
    assert 22 <= dataset.wall_ms < 45
    assert 6 <= collate.wall_ms < 15
    for stage in (dataset, collate):
        assert stage.cpu_ms is not None
        assert stage.run_queue_ms is not None
        assert stage.blocked_ms is not None
        assert stage.blocked_ms > 0.5 * stage.wall_ms
        assert stage.cpu_ms + stage.run_queue_ms + stage.blocked_ms == pytest.approx(stage.wall_ms)
    # One that the machine held up may be slower still.
    assert SLOW_ITEM in [sample.item for sample in found.slow_samples[:3]]
    assert found.slow_samples[0].ms >= 64
    assert found.tail_share is not None
    assert 0.1 < found.tail_share < 0.5
    transforms = {stage.name: stage for stage in found.transforms}
    assert 8 <= transforms["Crop"].wall_ms < 20
    assert transforms["Crop"].calls == 80
    if workers:  # without, a plain function belongs to the program alone
        assert 4 <= transforms["flip"].wall_ms < 12
        assert found.starts == 2
        assert {"serialise", "deserialise"} <= stages(found).keys()


def test_computing_is_told_from_sleeping(tmp_path: Path) -> None:
    found = pipeline(tmp_path / "run", "burns", 1)

    dataset = stages(found)["dataset"]
    assert dataset.cpu_ms is not None
    assert dataset.cpu_ms >= 20
    assert dataset.blocked_ms is not None
    assert dataset.blocked_ms < 0.3 * dataset.wall_ms


def test_big_batches_show_on_their_way(tmp_path: Path) -> None:
    found = pipeline(tmp_path / "run", "big", 1)

    assert found.bytes_per_batch == pytest.approx(8 * 32768 * 4, rel=0.01)
    serialise = stages(found)["serialise"]
    assert serialise.where == "feeder"
    assert serialise.cpu_ms is not None
    assert serialise.cpu_ms > 0
    assert stages(found)["deserialise"].where == "main"


@pytest.mark.parametrize("workers", [0, 1])
def test_fast_samples_are_thinned_out_and_counted(tmp_path: Path, workers: int) -> None:
    ran = run(tmp_path / "run", "fast", str(workers), "")

    found = folded(tmp_path / "run", ran, workers)

    recorded = sum(len(one.named(names.SAMPLE)) for one in ran.processes)
    assert recorded < 5000
    # Those since the last one that was recorded are not in it: how many depends on the pace.
    assert recorded < found.samples <= 20_000
    assert found.sample_ms["p50"] < 1


def test_streams_have_samples_without_a_number(tmp_path: Path) -> None:
    found = pipeline(tmp_path / "run", "stream", 1)

    assert (found.batches, found.samples) == (12, 48)
    assert found.slow_samples[0].item == -1
    assert found.sample_ms["p50"] >= 3


def test_starting_workers_takes_what_their_init_takes(tmp_path: Path) -> None:
    found = pipeline(tmp_path / "run", "starts", 2)

    assert found.starts == 2
    assert found.startup_ms is not None
    assert 240 <= found.startup_ms < 900
