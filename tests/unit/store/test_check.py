from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.errors import FormatError
from stepscope.store.check import check_segments
from stepscope.store.convert import Converter
from tests.unit.store.by_hand import whole_file

MakeRun = Callable[[dict[str, bytes]], Path]


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    run = make_run({"rank-00000/41-1.0000.frames": whole_file()})
    converter = Converter(run)
    converter.convert(lambda base, path: True)
    converter.close()
    return run


def arrows(run: Path) -> Path:
    return run / "rank-00000" / "41-1.arrows"


def test_a_finished_run_is_whole(run: Path) -> None:
    check_segments(run, finished=True)


def test_a_stream_that_lacks_only_its_end_is_whole(run: Path) -> None:
    arrows(run).write_bytes(arrows(run).read_bytes()[:-8])
    check_segments(run, finished=True)


@pytest.mark.parametrize("kept", [0, 3, 100, -20])
def test_a_torn_stream_of_a_finished_run_is_refused(run: Path, kept: int) -> None:
    arrows(run).write_bytes(arrows(run).read_bytes()[:kept])
    with pytest.raises(FormatError, match=r"torn.*[Rr]estore"):
        check_segments(run, finished=True)


def test_a_torn_stream_of_a_killed_run_is_normal(run: Path) -> None:
    arrows(run).write_bytes(arrows(run).read_bytes()[:-20])
    check_segments(run, finished=False)


def test_foreign_files_are_refused_in_every_run(run: Path) -> None:
    frames = run / "rank-00000" / "42-1.0000.frames"
    frames.write_bytes(b"not a segment")
    with pytest.raises(FormatError, match="not a stepscope segment"):
        check_segments(run, finished=False)
    frames.unlink()
    arrows(run).write_bytes(b"not a segment")
    with pytest.raises(FormatError, match="not a stepscope segment"):
        check_segments(run, finished=True)
