"""Buffers whose flush may wait, by themselves. How programs meet them: changes/test_logging.py."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from stepscope.tune.late_files import MOST_KEPT, LateBuffer, LateFiles, Opening


class Files(LateFiles):
    """At a time that is set by hand."""

    def __init__(self) -> None:
        self.now, self.synced = 0.0, 0
        super().__init__(1.0, lambda: self.now, self._count)
        self.aside = lambda do: do()

    def _count(self, _: int) -> None:
        self.synced += 1

    def open(self, path: Path) -> LateBuffer:
        return LateBuffer(io.FileIO(path, "a"), str(path), self)


def test_a_flush_waits_for_its_time(tmp_path: Path) -> None:
    files = Files()
    with files.open(tmp_path / "a") as late:
        late.write(b"x")
        late.flush()
        files.do_due()
        assert (tmp_path / "a").read_bytes() == b""
        files.now = 1.0
        files.do_due()
        assert (tmp_path / "a").read_bytes() == b"x"
        assert not files.waiting


def test_only_what_is_looked_at_is_written(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / "in").mkdir()
    one, other = files.open(tmp_path / "a"), files.open(tmp_path / "in" / "b")
    for late in (one, other):
        late.write(b"x")
        late.flush()
    files.do(str(tmp_path / "in"))
    assert files.waiting == {one}
    files.do()
    assert files.waiting == set()
    one.close()
    other.close()
    assert files.by_descriptor == {}


def test_few_files_are_kept_and_the_oldest_goes_first(tmp_path: Path) -> None:
    files = Files()
    kept = [files.open(tmp_path / str(number)) for number in range(MOST_KEPT + 2)]
    for late in kept:
        files.keep(late)
    assert [late.closed for late in kept] == [True, True] + [False] * MOST_KEPT
    files.finish()
    assert all(late.closed for late in kept)


def test_closing_an_opening_leaves_the_file_open(tmp_path: Path) -> None:
    files = Files()
    late = files.open(tmp_path / "a")
    first, second = Opening(late, "a"), Opening(late, "a")
    first.write(b"1")
    first.close()
    second.write(b"2")
    assert first.closed
    assert not late.closed
    with pytest.raises(ValueError, match="closed"):
        first.write(b"3")
    late.close()
    assert (tmp_path / "a").read_bytes() == b"12"


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    files = Files()
    with files.open(tmp_path / "a") as late:
        assert late.is_still_at_its_path()
        (tmp_path / "a").unlink()
        assert not late.is_still_at_its_path()
        (tmp_path / "a").touch()
        assert not late.is_still_at_its_path()


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    files = Files()
    told: list[BaseException] = []
    files.failed = told.append

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    files.fsync = broken
    late = files.open(tmp_path / "a")
    files.now = 2.0
    late.sync()
    assert [error.errno for error in told if isinstance(error, OSError)] == [5]
    files.fsync = os.fsync
    late.close()
