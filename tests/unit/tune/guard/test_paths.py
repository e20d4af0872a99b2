"""Where paths of a program lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.tune.guard.paths import View
from stepscope.tune.guard.redirect import Redirect


def test_an_untouched_file_is_read_where_it_is(redirect: Redirect, project: Path) -> None:
    spot = redirect.view.find(project / "log.jsonl")
    assert spot.real == str(project / "log.jsonl")
    assert not spot.through
    assert not spot.changed


def test_two_names_of_one_file_meet(redirect: Redirect, project: Path) -> None:
    plain = redirect.view.find(project / "data" / "a.txt").path
    roundabout = (
        project / "linked" / "a.txt",
        project / "linked.txt",
        f"{project}/checkpoints/../linked//./a.txt",
        os.fsencode(project / "linked.txt"),
    )
    assert {redirect.view.find(name).path for name in roundabout} == {plain}
    assert redirect.view.find(project / "linked.txt", follow=False).path != plain


def test_a_place_in_the_scratch_folder_is_the_program_s_own(
    redirect: Redirect, project: Path, scratch: Path
) -> None:
    inside = f"{scratch}/files{project}/log.jsonl"
    assert redirect.view.find(inside).path == str(project / "log.jsonl")


def test_relative_paths_start_at_the_working_folder_or_an_open_one(
    redirect: Redirect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "data")
    wanted = str(project / "data" / "a.txt")
    assert redirect.view.find("a.txt").path == wanted
    assert redirect.view.find("../linked/a.txt").path == wanted
    descriptor = os.open(project, os.O_RDONLY)
    try:
        assert redirect.view.find("data/a.txt", descriptor).path == wanted
    finally:
        os.close(descriptor)


def test_links_in_a_circle_end(redirect: Redirect, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "self").symlink_to("self/below")
    for name in ("one", "one/file", "self/file"):
        with pytest.raises(OSError, match="symbolic links"):
            redirect.view.find(tmp_path / name)


def test_an_allowed_folder_is_left_as_it_is(scratch: Path, project: Path) -> None:
    view = View(str(scratch), [str(project / "data")])
    assert view.find(project / "data" / "new.txt").through
    assert view.find(project / "linked" / "new.txt").through
    assert view.find("/dev/null").through is False
    assert not view.find(project / "database").through


def test_there_is_nothing_at_an_empty_path(redirect: Redirect) -> None:
    with pytest.raises(FileNotFoundError):
        redirect.view.find("")
