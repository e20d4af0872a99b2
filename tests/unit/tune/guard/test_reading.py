"""Asking about files, and changing their modes and times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.tune.guard.redirect import Redirect


def test_modes_and_times_change_for_the_program_alone(redirect: Redirect, project: Path) -> None:
    chmod, utime = redirect.reading.marking(os.chmod), redirect.reading.marking(os.utime)
    chmod(project / "log.jsonl", 0o600)
    utime(project / "log.jsonl", (1_000, 2_000))
    state = redirect.reading.stat(project / "log.jsonl")
    assert state.st_mode & 0o777 == 0o600
    assert state.st_mtime == 2_000
    chmod(project / "data", 0o700)
    assert redirect.reading.stat(project / "data").st_mode & 0o777 == 0o700
    assert redirect.listing.listdir(project / "data") == ["a.txt"]


def test_so_do_those_of_an_open_original(redirect: Redirect, project: Path) -> None:
    fchmod = redirect.reading.marking(os.chmod)
    descriptor = os.open(project / "log.jsonl", os.O_RDONLY)
    try:
        fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    assert redirect.reading.stat(project / "log.jsonl").st_mode & 0o777 == 0o600


def test_a_file_is_cut_in_its_copy(redirect: Redirect, project: Path) -> None:
    redirect.reading.marking(os.truncate)(project / "checkpoints" / "best.pt", 3)
    with redirect.opening.open(project / "checkpoints" / "best.pt") as file:
        assert file.read() == "the"


def test_links_are_followed_unless_they_are_meant(redirect: Redirect, project: Path) -> None:
    followed = redirect.reading.stat(project / "linked.txt")
    assert followed.st_ino == (project / "data" / "a.txt").stat().st_ino
    meant = redirect.reading.stat(project / "linked.txt", follow_symlinks=False)
    assert meant == redirect.reading.lstat(project / "linked.txt")
    assert redirect.reading.readlink(os.fsencode(project / "linked.txt")) == b"data/a.txt"


def test_a_link_to_a_changed_file_tells_of_the_change(redirect: Redirect, project: Path) -> None:
    with redirect.opening.open(project / "data" / "a.txt", "w") as file:
        file.write("longer")
    assert redirect.reading.stat(project / "linked.txt").st_size == len("longer")
    with redirect.opening.open(project / "linked.txt") as file:
        assert file.read() == "longer"


def test_access_is_asked_of_what_the_program_sees(redirect: Redirect, project: Path) -> None:
    access = redirect.reading.access
    assert access(project / "log.jsonl", os.R_OK)
    redirect.changing.remove(project / "log.jsonl")
    assert not access(project / "log.jsonl", os.R_OK)


def test_the_working_folder_may_be_one_of_the_program_s_own(
    redirect: Redirect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)  # and back at the end
    redirect.changing.mkdir(project / "out")
    redirect.reading.chdir("out")
    assert redirect.reading.getcwd() == str(project / "out")
    assert redirect.reading.getcwdb() == os.fsencode(project / "out")
    redirect.opening.open("here.txt", "w").close()
    redirect.reading.chdir("..")
    assert os.getcwd() == str(project)  # noqa: PTH109 - what the system itself says
    assert redirect.listing.listdir("out") == ["here.txt"]


def test_descriptors_are_asked_as_they_are(redirect: Redirect) -> None:
    reading, writing = os.pipe()
    try:
        assert redirect.reading.stat(reading) == os.fstat(reading)
        redirect.reading.marking(os.chmod)(writing, 0o600)
    finally:
        os.close(reading)
        os.close(writing)
