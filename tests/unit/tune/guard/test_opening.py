"""Opening files for reading and writing."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from stepscope.tune.guard import raw
from stepscope.tune.guard.redirect import Redirect


def read(redirect: Redirect, path: Path) -> str:
    with redirect.opening.open(path) as file:
        return str(file.read())


def write(redirect: Redirect, path: Path, mode: str, text: str) -> None:
    with redirect.opening.open(path, mode) as file:
        file.write(text)


def test_appending_adds_to_what_is_there(redirect: Redirect, project: Path) -> None:
    write(redirect, project / "log.jsonl", "a", '{"step": 2}\n')
    write(redirect, project / "log.jsonl", "a", '{"step": 3}\n')
    assert read(redirect, project / "log.jsonl") == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'


@pytest.mark.parametrize(
    ("mode", "expected"), [("w", "AB"), ("r+", "ABe best"), ("a", "the bestAB"), ("w+", "AB")]
)
def test_each_mode_does_to_the_copy_what_it_would_to_the_original(
    redirect: Redirect, project: Path, mode: str, expected: str
) -> None:
    write(redirect, project / "checkpoints" / "best.pt", mode, "AB")
    assert read(redirect, project / "checkpoints" / "best.pt") == expected


def test_a_new_file_is_there_for_the_program_alone(redirect: Redirect, project: Path) -> None:
    write(redirect, project / "data" / "new.txt", "x", "new")
    assert read(redirect, project / "linked" / "new.txt") == "new"
    assert not (project / "data" / "new.txt").exists()
    with pytest.raises(FileExistsError):
        write(redirect, project / "data" / "new.txt", "x", "again")


def test_exclusive_creation_sees_the_original(redirect: Redirect, project: Path) -> None:
    with pytest.raises(FileExistsError):
        write(redirect, project / "log.jsonl", "x", "")


def test_writing_through_a_link_changes_what_it_leads_to(redirect: Redirect, project: Path) -> None:
    write(redirect, project / "linked.txt", "w", "changed")
    assert read(redirect, project / "data" / "a.txt") == "changed"
    assert redirect.reading.readlink(project / "linked.txt") == "data/a.txt"


def test_a_file_keeps_the_name_that_the_program_gave_it(
    redirect: Redirect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    with redirect.opening.open("log.jsonl", "a") as file:
        assert file.name == "log.jsonl"


def test_what_cannot_be_opened_says_so(redirect: Redirect, project: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(redirect, project / "none.txt")
    with pytest.raises(FileNotFoundError):
        write(redirect, project / "none" / "file.txt", "w", "")
    with pytest.raises(NotADirectoryError):
        write(redirect, project / "log.jsonl" / "file.txt", "w", "")
    with pytest.raises(IsADirectoryError):
        write(redirect, project / "data", "w", "")


def test_what_the_user_may_not_write_to_is_refused(
    redirect: Redirect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = raw.access  # asked instead of the system's modes, which do not hold for root

    def access(path: str, mode: int, **named: bool) -> bool:
        return not mode & os.W_OK and real(path, mode, **named)

    monkeypatch.setattr(raw, "access", access)
    for name in ("log.jsonl", "new.txt"):
        with pytest.raises(PermissionError, match=name):
            write(redirect, project / name, "a", "")
    with pytest.raises(PermissionError):
        redirect.changing.remove(project / "log.jsonl")
    assert read(redirect, project / "log.jsonl") == '{"step": 1}\n'


def test_a_pipe_of_the_user_is_not_written_to(redirect: Redirect, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match=r"no devices, pipes or sockets.*pipe"):
        write(redirect, tmp_path / "pipe", "w", "")


def test_descriptors_are_opened_as_they_are(redirect: Redirect) -> None:
    reading, writing = os.pipe()
    with redirect.opening.open(writing, "w") as file:
        file.write("through a pipe")
    with redirect.opening.open(reading) as file:
        assert file.read() == "through a pipe"


def test_os_open_works_in_an_open_folder(redirect: Redirect, project: Path) -> None:
    folder = os.open(project / "data", os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT
    try:
        os.close(redirect.opening.open_descriptor("b.txt", flags, 0o600, dir_fd=folder))
    finally:
        os.close(folder)
    assert read(redirect, project / "data" / "b.txt") == ""


def test_a_file_without_a_name_is_made_in_the_scratch_folder(
    redirect: Redirect, project: Path, scratch: Path
) -> None:
    descriptor = redirect.opening.open_descriptor(project, os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        assert scratch in Path(f"/proc/self/fd/{descriptor}").readlink().parents
    finally:
        os.close(descriptor)


def test_raw_files_are_redirected_and_stay_what_they_are(redirect: Redirect, project: Path) -> None:
    kind = redirect.opening.file_io

    class Special(kind):  # type: ignore[valid-type, misc]
        pass

    with kind(project / "raw.bin", "w") as file:
        file.write(b"raw")
    with kind(project / "raw.bin") as file, Path(os.devnull).open("rb", 0) as plain:
        assert file.read() == b"raw"
        assert isinstance(plain, kind)
        assert not isinstance(plain, Special)
        assert issubclass(io.FileIO, kind)
    with Special(project / "raw.bin") as special:
        assert isinstance(special, Special)
        assert special.read() == b"raw"


def test_a_copy_has_the_mode_and_an_untouched_one_the_times_of_its_original(
    redirect: Redirect, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("s")
    file.chmod(0o600)
    os.utime(file, (1_000, 2_000))
    redirect.opening.open(file, "r+").close()
    state = redirect.reading.stat(file)
    assert state.st_ino != file.stat().st_ino
    assert (state.st_mode, state.st_mtime) == (file.stat().st_mode, 2_000)
