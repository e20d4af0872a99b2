"""Who looks at which file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch  # noqa: F401 - wrappers are placed beside its modules

from stepscope.collect.chain import Patches
from stepscope.tune.doors import Doors


class Watched:
    def __init__(self) -> None:
        self.is_busy = True
        self.looks: list[str | None] = []
        self.patches = Patches()
        self.doors = Doors(self.patches, lambda: self.is_busy, self.looks.append)
        self.doors.install(but=["rename"])


@pytest.fixture
def watched() -> Iterator[Watched]:
    one = Watched()
    yield one
    one.doors.undo()
    one.patches.undo()


def test_a_look_is_told_with_its_whole_path(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watched.looks.clear()
    Path("a").touch()
    os.listdir()  # noqa: PTH208
    os.replace(b"a", tmp_path / "b")  # noqa: PTH105
    assert watched.looks[0] == str(tmp_path / "a")
    assert watched.looks[-3:] == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "b")]


def test_another_program_may_look_at_anything(watched: Watched) -> None:
    subprocess.run(["true"], check=True)
    assert None in watched.looks


def test_a_folder_that_is_removed_is_told_first(watched: Watched, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a").touch()
    watched.looks.clear()
    shutil.rmtree(folder)
    assert watched.looks[0] == str(folder)
    assert not folder.exists()


def test_nothing_is_asked_while_nothing_is_pending(watched: Watched, tmp_path: Path) -> None:
    watched.is_busy = False
    watched.looks.clear()
    tmp_path.stat()
    assert watched.looks == []


def test_doors_in_front_of_doors_both_tell(watched: Watched, tmp_path: Path) -> None:
    second = Watched()
    watched.looks.clear()
    try:
        tmp_path.stat()
        assert watched.looks == second.looks == [str(tmp_path)]
    finally:
        second.doors.undo()
        second.patches.undo()


def test_descriptors_have_no_path_and_abilities_stay(watched: Watched, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    watched.looks.clear()
    os.stat(descriptor)  # noqa: PTH116
    assert watched.looks == []
    os.stat("/", dir_fd=descriptor)
    assert watched.looks == [None]
    os.close(descriptor)
    assert os.stat in os.supports_fd
    assert os.unlink in os.supports_dir_fd


def test_errors_pass_and_all_is_put_back(tmp_path: Path) -> None:
    before = os.stat, os.open, open, subprocess.Popen.__init__
    one = Watched()
    with pytest.raises(FileNotFoundError):
        (tmp_path / "missing").stat()
    with pytest.raises(TypeError):
        os.stat()  # type: ignore[call-arg]
    one.doors.undo()
    one.patches.undo()
    assert (os.stat, os.open, open, subprocess.Popen.__init__) == before
