"""Files that a thread writes."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepscope.tune.background import Background, Job


def job(path: Path, text: str, gate: threading.Event | None = None) -> Job:
    """gate: it is not written before that is set."""

    def write(where: str) -> None:
        if gate is not None:
            assert gate.wait(60)
        Path(where).write_text(text)

    return Job(str(path), write, lambda: None)


def in_thread(do: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=do)
    thread.start()
    return thread


def test_files_are_there_after_waiting_and_only_they(tmp_path: Path) -> None:
    background = Background()
    for number in range(5):
        background.put(job(tmp_path / f"{number}", str(number)))
    background.wait()
    found = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert found == {str(number): str(number) for number in range(5)}
    assert not background.is_busy


class Observed(list[Job]):
    """Looks, whenever a job leaves the list, as a thread without the lock could."""

    def __init__(self, background: Background) -> None:
        super().__init__()
        self.background = background
        self.seen: list[bool] = []

    def __delitem__(self, at: Any) -> None:
        super().__delitem__(at)
        self.seen.append(self.background.is_busy)

    def pop(self, at: Any = -1) -> Job:
        found = super().pop(at)
        self.seen.append(self.background.is_busy)
        return found


def test_it_is_busy_until_the_file_is_there(tmp_path: Path) -> None:
    background = Background()
    waiting = background._waiting = Observed(background)
    background.put(job(tmp_path / "a", "1"))
    background.wait()
    assert waiting.seen == [True]


def test_a_reader_waits_for_the_file_it_wants(tmp_path: Path) -> None:
    background, gate = Background(), threading.Event()
    background.put(job(tmp_path / "a", "new", gate))
    assert not (tmp_path / "a").exists()
    background.wait(str(tmp_path / "other"))  # returns at once
    reader = in_thread(lambda: background.wait(str(tmp_path)))
    gate.set()
    reader.join(60)
    assert (tmp_path / "a").read_text() == "new"


def test_a_version_that_was_not_begun_gives_way_to_a_newer_one(tmp_path: Path) -> None:
    background, gate = Background(), threading.Event()
    released: list[int] = []
    background.put(job(tmp_path / "first", "", gate))
    for number in range(4):
        newer = job(tmp_path / "a", str(number))
        newer.release = partial(released.append, number)
        background.put(newer)
    assert released == [0, 1, 2]  # nobody writes these any more
    gate.set()
    background.wait()
    assert (tmp_path / "a").read_text() == "3"


def test_a_pending_file_takes_its_new_name_on_the_way(tmp_path: Path) -> None:
    background, gate = Background(), threading.Event()
    background.put(job(tmp_path / "a.tmp", "1", gate))
    assert background.rename(str(tmp_path / "a.tmp"), str(tmp_path / "a"))
    gate.set()
    background.wait(str(tmp_path / "a"))
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("case", ["old file", "folder", "no folder", "not pending"])
def test_names_that_need_more_than_that_are_left_to_the_caller(tmp_path: Path, case: str) -> None:
    background, gate = Background(), threading.Event()
    source, target = tmp_path / "a.tmp", tmp_path / "a"
    if case == "old file":
        source.touch()
    if case == "folder":
        target.mkdir()
    if case == "no folder":
        target = tmp_path / "missing" / "a"
    if case != "not pending":
        background.put(job(source, "1", gate))
    assert not background.rename(str(source), str(target))
    gate.set()
    background.wait()


def test_what_fails_raises_in_the_thread_of_the_program(tmp_path: Path) -> None:
    threads: list[str] = []

    def write(_: str) -> None:
        threads.append(threading.current_thread().name)
        raise OSError(28, "No space left on device")

    background = Background()
    background.put(Job(str(tmp_path / "a"), write, lambda: None))
    with pytest.raises(OSError, match="No space"):
        background.wait()
    assert threads == ["stepscope-saving", threading.current_thread().name]
    background.wait()  # it has been told
    assert list(tmp_path.iterdir()) == []


def test_what_fails_once_is_written_in_the_second_try(tmp_path: Path) -> None:
    tries: list[str] = []

    def write(where: str) -> None:
        tries.append(where)
        if len(tries) == 1:
            raise OSError("later")
        Path(where).write_text("there")

    background = Background()
    background.put(Job(str(tmp_path / "a"), write, lambda: None))
    background.wait()
    assert (tmp_path / "a").read_text() == "there"


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o640)
    background = Background()
    background.put(job(path, "new"))
    background.wait()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text() == "new"
