from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.model.event import Batch
from stepscope.store import convert
from stepscope.store.arrow import ArrowWriter, Position
from stepscope.store.convert import Converter
from stepscope.store.trace import open_trace
from tests.unit.store.by_hand import NAMES, events, header, names, whole_file

MakeRun = Callable[[dict[str, bytes]], Path]
FILE = "rank-00000/41-1.{:04d}.frames"


def times(run: Path) -> list[int]:
    trace = open_trace(run)
    return [
        row.time_ns
        for process in trace.processes
        for batch in trace.batches(process)
        for row in batch.rows()
    ]


def three_files() -> dict[str, bytes]:
    return {
        FILE.format(n): header() + names(NAMES) + events([1], n * 10) + events([2], n * 10 + 5)
        for n in range(3)
    }


def convert_all(run: Path) -> Converter:
    converter = Converter(run)
    converter.convert(lambda base, path: True)
    converter.close()
    return converter


def test_everything_stands_in_arrow_and_the_frames_are_gone(make_run: MakeRun) -> None:
    run = make_run(three_files())
    assert convert_all(run).problems == []
    assert [path.name for path in (run / "rank-00000").iterdir()] == ["41-1.arrows"]
    assert times(run) == [0, 5, 10, 15, 20, 25]


def test_only_files_that_may_be_taken_are_converted(make_run: MakeRun) -> None:
    run = make_run(three_files())
    converter = Converter(run)
    converter.convert(lambda base, path: path.name.endswith("0000.frames"))
    assert times(run) == [0, 5, 10, 15, 20, 25]
    converter.convert(lambda base, path: True)
    converter.close()
    assert times(run) == [0, 5, 10, 15, 20, 25]
    assert not list(run.rglob("*.frames"))


def test_small_batches_are_joined(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = ArrowWriter.write

    def noted(self: ArrowWriter, parts: list[Batch], covers: Position) -> None:
        sizes.append(len(parts))
        write(self, parts, covers)

    monkeypatch.setattr(convert, "_BATCH_ROWS", 4)
    monkeypatch.setattr(ArrowWriter, "write", noted)
    run = make_run({FILE.format(0): whole_file(batches=5, rows=2)})
    convert_all(run)
    assert sizes == [2, 2, 1]
    assert len(times(run)) == 10


def test_a_conversion_cut_off_between_two_batches_loses_and_doubles_nothing(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a converter that is killed after its first batch (the frames file is still whole)
    WHEN the run is read THEN each event is there once."""
    run = make_run(three_files())
    monkeypatch.setattr(convert, "_BATCH_ROWS", 1)
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
    write = ArrowWriter.write
    calls = []

    def killed(self: ArrowWriter, *arguments: object) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise SystemExit
        write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ArrowWriter, "write", killed)
    with pytest.raises(SystemExit):
        convert_all(run)
    monkeypatch.undo()
    assert times(run) == [0, 5, 10, 15, 20, 25]


def test_a_disk_that_is_full_keeps_the_frames(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ArrowWriter, *arguments: object) -> None:
        raise OSError(28, "No space left on device")

    run = make_run(three_files())
    monkeypatch.setattr(ArrowWriter, "write", full)
    converter = convert_all(run)
    assert converter.problems == ["events were kept as frames: No space left on device"]
    assert len(list(run.rglob("*.frames"))) == 3
    assert times(run) == [0, 5, 10, 15, 20, 25]


def test_a_damaged_file_is_kept_and_its_good_part_converted(make_run: MakeRun) -> None:
    content = bytearray(whole_file(batches=3, rows=1))
    content[-20] ^= 255
    run = make_run({FILE.format(0): bytes(content), FILE.format(1): whole_file(batches=1, rows=1)})
    convert_all(run)
    assert [path.name for path in run.rglob("*.frames")] == ["41-1.0000.frames"]
    assert times(run) == [0, 100, 0]
    assert "checksum" in open_trace(run).losses.notes[0]


def test_a_torn_tail_goes_with_its_file(make_run: MakeRun) -> None:
    run = make_run({FILE.format(0): whole_file(batches=3, rows=1)[:-4]})
    convert_all(run)
    assert not list(run.rglob("*.frames"))
    assert times(run) == [0, 100]


def test_a_stream_of_another_launcher_is_left_alone(make_run: MakeRun) -> None:
    run = make_run({FILE.format(0): whole_file(batches=1)})
    convert_all(run)
    arrows = run / "rank-00000" / "41-1.arrows"
    before = arrows.read_bytes()
    (run / FILE.format(1)).write_bytes(whole_file(batches=1))
    convert_all(run)
    assert arrows.read_bytes() == before
    assert len(times(run)) == 6


def test_a_foreign_file_is_a_problem_and_the_others_are_converted(make_run: MakeRun) -> None:
    run = make_run({FILE.format(0): b"foreign!", "rank-00001/42-1.0000.frames": whole_file(rank=1)})
    (problem,) = convert_all(run).problems
    assert "not a stepscope segment" in problem
    assert (run / "rank-00001" / "42-1.arrows").exists()


def test_a_vanished_run_is_no_error(tmp_path: Path) -> None:
    assert convert_all(tmp_path / "gone").problems == []


def test_a_stream_goes_on_when_there_is_room_on_the_disk_again(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a disk that was full while the second batch was written
    WHEN there is room again THEN the rest is converted, and nothing is lost or doubled."""
    run = make_run(three_files())
    monkeypatch.setattr(convert, "_BATCH_ROWS", 1)
    write = ArrowWriter.write
    calls = []

    def full_once(self: ArrowWriter, parts: list[Batch], covers: Position) -> None:
        calls.append(1)
        if len(calls) == 2:
            self._cut()
            raise OSError(28, "No space left on device")
        write(self, parts, covers)

    monkeypatch.setattr(ArrowWriter, "write", full_once)
    converter = Converter(run)
    converter.convert(lambda base, path: True)
    assert times(run) == [0, 5, 10, 15, 20, 25]
    assert len(list(run.rglob("*.frames"))) == 3
    for _ in range(4):  # it is not tried with every call
        converter.convert(lambda base, path: True)
    converter.close()
    assert times(run) == [0, 5, 10, 15, 20, 25]
    names_left = sorted(path.name for path in run.rglob("41-1.*"))
    assert names_left == ["41-1.0001.arrows", "41-1.arrows"]


def test_a_damaged_file_is_converted_once(make_run: MakeRun) -> None:
    content = bytearray(whole_file(batches=3, rows=1))
    content[-20] ^= 255
    run = make_run({FILE.format(0): bytes(content)})
    converter = Converter(run)
    for _ in range(3):
        converter.convert(lambda base, path: True)
    converter.close()
    assert times(run) == [0, 100]


def test_a_stream_goes_on_in_a_new_part(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(three_files())
    converter = Converter(run)
    monkeypatch.setattr(converter, "_part_bytes", 1)
    monkeypatch.setattr(convert, "_BATCH_ROWS", 1)
    converter.convert(lambda base, path: True)
    converter.close()
    assert sorted(path.name for path in run.rglob("41-1.*"))[:3] == [
        "41-1.0001.arrows", "41-1.0002.arrows", "41-1.0003.arrows"
    ]  # fmt: skip
    assert times(run) == [0, 5, 10, 15, 20, 25]


def test_no_more_files_are_held_open_than_a_few(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "_OPEN_STREAMS", 2)
    files = {f"rank-00000/{n}-1.0000.frames": whole_file(batches=1, pid=n) for n in range(50, 70)}
    run = make_run(files)
    converter = Converter(run)
    before = len(list(Path("/proc/self/fd").iterdir()))
    converter.convert(lambda base, path: True)
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 2
    # One that was let go of and comes back goes on where it was.
    (run / "rank-00000/50-1.0001.frames").write_bytes(whole_file(batches=1, pid=50))
    converter.convert(lambda base, path: True)
    converter.close()
    assert len(times(run)) == 21 * 3
    assert (run / "rank-00000/50-1.0001.arrows").exists()
