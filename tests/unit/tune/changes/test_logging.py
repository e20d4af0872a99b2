"""Logs that are written together."""

from __future__ import annotations

import csv
import io
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.tune.changes.logging import Logging
from tests.unit.tune.changes.host_support import Heard


class Counting(Logging):
    """With a clock that stands still until it is told to go on, and disks that count."""

    now = 100.0

    def clock(self) -> float:
        return self.now

    def install(self) -> None:
        self.synced = 0
        super().install()
        self._files.fsync = self._count
        self._files.aside = lambda do: do()

    def _count(self, _: int) -> None:
        self.synced += 1


@pytest.fixture
def buffered() -> Iterator[Counting]:
    change = Counting({"seconds": 1.0}, Heard())
    change.install()
    yield change
    change.undo()


def on_disk(path: Path) -> str:
    """What another program would see: no door of ours is on the way."""
    descriptor = os.open.__wrapped__(path, os.O_RDONLY)  # type: ignore[attr-defined]
    try:
        return os.read(descriptor, 100_000).decode()
    finally:
        os.close(descriptor)


def append(path: Path, line: str) -> None:
    with path.open("a", newline="") as file:
        csv.writer(file).writerow([line])
        file.flush()
        os.fsync(file.fileno())


def test_flushes_and_syncs_wait_and_come_together(buffered: Counting, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        for number in range(5):
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
        assert on_disk(tmp_path / "log") == ""
        assert buffered.synced == 0
        buffered.now += 1.5
        file.flush()
        assert on_disk(tmp_path / "log") == "0\n1\n2\n3\n4\n"
        assert buffered.synced == 1
    assert buffered.told.whats == ["flushed at most every 1 s"]  # type: ignore[attr-defined]


def test_a_disk_that_is_busy_is_asked_again_later(buffered: Counting, tmp_path: Path) -> None:
    asked: list[Callable[[], None]] = []
    buffered._files.aside = asked.append
    with (tmp_path / "log").open("w") as file:
        for number in range(3):
            buffered.now += 2
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
            buffered.now += 2
            buffered.stepped(None)
        assert len(asked) == 1
        assert on_disk(tmp_path / "log") == "0\n1\n2\n"
        asked[0]()
        buffered.now += 2
        buffered.stepped(None)
        assert len(asked) == 2
        asked[1]()
    assert buffered.synced == 2


def test_a_step_does_what_is_due(buffered: Counting, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", buffering=1) as file:
        file.write("line\n")  # line by line, as it asked for
        buffered.stepped(None)
        assert on_disk(tmp_path / "log") == ""
        buffered.now += 2
        buffered.stepped(None)
        assert on_disk(tmp_path / "log") == "line\n"


def test_a_file_opened_for_every_line_is_opened_once(buffered: Counting, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for number in range(20):
        append(path, str(number))
    assert buffered.synced == 2  # of the first two openings, which were really closed
    assert len(buffered._files.by_descriptor) == 1
    assert path.read_text() == "".join(f"{number}\n" for number in range(20))
    told = buffered.told
    assert "kept open between open() calls" in told.whats  # type: ignore[attr-defined]
    assert set(told.functions) == {"append"}  # type: ignore[attr-defined]


def test_a_closed_file_is_closed_for_the_program(buffered: Counting, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for _ in range(4):
        append(path, "x")
    with path.open("a") as file:
        assert (file.name, file.mode, file.closed) == (str(path), "a", False)
        assert file.tell() == 12  # four lines of CSV
        file.write("y")
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.write("z")
    assert path.read_text() == "x\n" * 4 + "y"


def test_files_that_are_moved_or_removed_between_are_begun_anew(
    buffered: Counting, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    for number in range(5):
        append(path, str(number))
    path.rename(tmp_path / "old")
    append(path, "new")
    path.unlink()
    append(path, "newer")
    buffered.finish()
    assert (tmp_path / "old").read_text() == "0\n1\n2\n3\n4\n"
    assert path.read_text() == "newer\n"


def test_whoever_looks_sees_every_line(buffered: Counting, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as file:
        file.write("one\n")
        file.flush()
        assert path.read_text() == "one\n"
        file.write("two\n")
        file.flush()
        assert path.stat().st_size == 8
        file.write("three\n")
        file.flush()
        seen = subprocess.run(["cat", path], capture_output=True, check=True).stdout
    assert seen == b"one\ntwo\nthree\n"


def test_two_that_write_one_file_take_turns_as_before(buffered: Counting, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("a") as one, path.open("a") as other:
        for number in range(4):
            file = other if number % 2 else one
            file.write(f"{number}\n")
            file.flush()
        assert on_disk(path) == "0\n1\n2\n3\n"


def test_records_of_logging_are_written_together(buffered: Counting, tmp_path: Path) -> None:
    log = logging.getLogger("stepscope-test")
    handler = logging.FileHandler(tmp_path / "log")
    log.addHandler(handler)
    try:
        for number in range(3):
            log.warning("record %d", number)
        assert on_disk(tmp_path / "log") == ""
    finally:
        log.removeHandler(handler)
        handler.close()
    assert on_disk(tmp_path / "log") == "record 0\nrecord 1\nrecord 2\n"


def test_positions_and_lengths_are_right(buffered: Counting, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        file.write("0123456789")
        file.flush()
        assert file.tell() == 10
        file.seek(4)
        file.write("x")
        file.flush()
        file.truncate(6)
    assert on_disk(tmp_path / "log") == "0123x5"


def test_a_file_that_nobody_closed_is_written(buffered: Counting, tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning):
        (tmp_path / "log").open("w").write("text")
    assert on_disk(tmp_path / "log") == "text"


@pytest.mark.parametrize("mode", ["wb", "w+", "r+", "ab"])
def test_other_files_are_opened_as_before(buffered: Counting, tmp_path: Path, mode: str) -> None:
    (tmp_path / "f").touch()
    with (tmp_path / "f").open(mode) as file:
        file.write(b"x" if "b" in mode else "x")
        file.flush()
        assert on_disk(tmp_path / "f") == "x"
    assert buffered.told.done == []  # type: ignore[attr-defined]


def plain(way: str, path: Path) -> Any:
    """A file that is not opened as a text to write."""
    if way == "descriptor":
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT), "wb")
    return path.open(way, buffering=0 if way == "wb" else -1)


@pytest.mark.parametrize("way", ["ab", "wb", "w+", "descriptor"])
def test_a_file_that_is_synced_again_and_again_is_written_at_once_and_synced_later(
    buffered: Counting, tmp_path: Path, way: str
) -> None:
    text = way == "w+"
    with plain(way, tmp_path / "log") as file:
        for number in range(5):
            file.write(f"{number}\n" if text else f"{number}\n".encode())
            file.flush()
            os.fsync(file.fileno())
            assert on_disk(tmp_path / "log").endswith(f"{number}\n")
        assert buffered.synced == 0
        buffered.now += 1.5
        buffered.stepped(None)
        assert buffered.synced == 1  # the disk was asked once for the four after the first
        os.fsync(file)
    assert buffered.synced == 1
    buffered.finish()
    assert buffered.synced == 2  # and for the last, although the file is closed
    assert on_disk(tmp_path / "log") == "0\n1\n2\n3\n4\n"
    told = buffered.told
    assert told.whats == ["synced at most every 1 s"]  # type: ignore[attr-defined]


def test_a_file_that_was_opened_before_is_synced_later_too(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        change = Counting({"seconds": 1.0}, Heard())
        change.install()
        try:
            for number in range(5):
                file.write(f"{number}\n")
                file.flush()
                os.fsync(file.fileno())
            assert change.told.whats == ["synced at most every 1 s"]  # type: ignore[attr-defined]
        finally:
            change.undo()
    assert change.synced == 1
    assert (tmp_path / "log").read_text() == "0\n1\n2\n3\n4\n"


def test_a_file_that_is_synced_once_before_it_takes_its_place_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As checkpoints are written. Numbers of descriptors and of files are used again."""
    really: list[int] = []
    monkeypatch.setattr(os, "fsync", really.append)
    change = Counting({"seconds": 1.0}, Heard())
    change.install()
    try:
        for number in range(5):
            with (tmp_path / "part").open("wb") as file:
                file.write(b"state")
                os.fsync(file.fileno())
            (tmp_path / "part").replace(tmp_path / "state")
            assert len(really) == number + 1
    finally:
        change.undo()
    assert change.synced == 0


def test_a_folder_is_synced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really: list[int] = []
    monkeypatch.setattr(os, "fsync", really.append)
    change = Counting({"seconds": 1.0}, Heard())
    change.install()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(3):
            os.fsync(folder)
    finally:
        os.close(folder)
        change.undo()
    assert really == [folder] * 3


def test_errors_pass(buffered: Counting, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        (tmp_path / "missing" / "log").open("w")
    with pytest.raises(IsADirectoryError):
        tmp_path.open("a")
    (tmp_path / "there").touch()
    with pytest.raises(FileExistsError):
        (tmp_path / "there").open("x")
    with pytest.raises(LookupError):
        (tmp_path / "log").open("w", encoding="no such")
    with pytest.raises(ValueError, match="unbuffered"):
        (tmp_path / "log").open("w", buffering=0)
    with pytest.raises(OSError):
        os.fsync(10_000)


def test_a_name_of_an_encoding_that_is_wrong_leaves_no_file_open(
    buffered: Counting, tmp_path: Path
) -> None:
    with pytest.raises(LookupError):
        (tmp_path / "log").open("w", encoding="no such")
    assert buffered._files.by_descriptor == {}


def test_undo_puts_everything_back(tmp_path: Path) -> None:
    before = open, io.open, os.fsync, os.stat
    change = Counting({}, Heard())
    change.install()
    file: Any = (tmp_path / "log").open("w")
    file.write("a")
    file.flush()
    change.undo()
    assert (open, io.open, os.fsync, os.stat) == before
    assert (tmp_path / "log").read_text() == "a"
    file.write("b")
    file.flush()
    assert (tmp_path / "log").read_text() == "ab"
    file.close()


PROGRAM = """
import os, sys
from unittest.mock import Mock
from stepscope.tune.changes.logging import Logging
Logging({"seconds": 1000}, Mock()).install()
log = open("log", sys.argv[2])
for word in ("last ", "words\\n"):
    log.write(word.encode() if "b" in sys.argv[2] else word)
    log.flush()
    os.fsync(log.fileno())
if sys.argv[1] == "exit":
    os._exit(3)
if sys.argv[1] == "fork" and os.fork() == 0:
    sys.exit()
if sys.argv[1] == "leave":
    raise SystemExit(4)
if sys.argv[1] == "raise":
    raise ValueError("5")
"""


@pytest.mark.parametrize("mode", ["w", "wb"])
@pytest.mark.parametrize(("way", "code"), [("exit", 3), ("fork", 0), ("leave", 4), ("raise", 1)])
def test_a_program_that_ends_has_its_last_lines_once(
    tmp_path: Path, way: str, code: int, mode: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, way, mode], cwd=tmp_path, check=False, capture_output=True
    )
    assert ended.returncode == code
    assert (tmp_path / "log").read_text() == "last words\n"
