from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.model.source import NO_SOURCE
from stepscope.store.source import SourceReader


@pytest.fixture
def reader(tmp_path: Path) -> SourceReader:
    (tmp_path / "train.py").write_text("one\ntwo\nthree\nfour\n")
    os.utime(tmp_path / "train.py", (1000, 1000))
    return SourceReader(tmp_path, began_unix=2000.0)


def test_lines_are_given_by_number_and_relative_names_count_from_the_folder_of_the_run(
    reader: SourceReader, tmp_path: Path
) -> None:
    assert reader.lines("train.py", 2, 3).lines == ("two", "three")
    assert reader.lines(str(tmp_path / "train.py"), 1, 1).lines == ("one",)


def test_fewer_lines_are_given_where_there_are_fewer(reader: SourceReader) -> None:
    assert reader.lines("train.py", 4, 9).lines == ("four", "")
    assert reader.lines("train.py", 40, 90).lines == ()
    assert reader.lines("train.py", -5, -1).lines == ()


def test_a_file_that_was_written_to_since_is_said_to_be_changed(
    reader: SourceReader, tmp_path: Path
) -> None:
    assert not reader.lines("train.py", 1, 1).changed
    (tmp_path / "later.py").write_text("x")
    assert reader.lines("later.py", 1, 1).changed


@pytest.mark.parametrize(
    "name", ["missing.py", "secret.txt", "folder.py", "pipe.py", "large.py", "nul\0.py", "a" * 5000]
)
def test_what_is_no_source_of_the_user_gives_nothing(
    name: str, reader: SourceReader, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("root:x:0:0")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")  # reading it would wait for ever
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(5 << 20)
    assert reader.lines(name, 1, 3) == NO_SOURCE


def test_a_run_cannot_make_it_read_files_without_end(reader: SourceReader, tmp_path: Path) -> None:
    for number in range(70):
        (tmp_path / f"{number}.py").write_text("x")
    read = [reader.lines(f"{number}.py", 1, 1).lines for number in range(70)]
    assert 0 < read.count(("x",)) <= 64
