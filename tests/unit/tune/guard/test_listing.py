"""Folders as a program sees them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.tune.guard.redirect import Redirect


def touch(redirect: Redirect, path: Path) -> None:
    redirect.opening.open(path, "w").close()


def test_both_layers_are_listed_once(redirect: Redirect, project: Path) -> None:
    touch(redirect, project / "checkpoints" / "new.pt")
    touch(redirect, project / "checkpoints" / "last.pt")
    redirect.changing.remove(project / "checkpoints" / "best.pt")
    listed = sorted(redirect.listing.listdir(project / "checkpoints"))
    assert listed == ["last.pt", "new.pt", "old"]
    as_bytes = redirect.listing.listdir(os.fsencode(project / "checkpoints"))
    assert sorted(as_bytes) == [b"last.pt", b"new.pt", b"old"]


def test_entries_are_like_those_of_the_system(redirect: Redirect, project: Path) -> None:
    plain = {entry.name: entry for entry in os.scandir(project)}
    touch(redirect, project / "new.txt")
    with redirect.listing.scandir(project) as entries:
        merged = {entry.name: entry for entry in entries}
    assert set(merged) == {*plain, "new.txt"}
    for name, entry in plain.items():
        ours = merged[name]
        assert (ours.path, os.fspath(ours)) == (entry.path, os.fspath(entry))
        assert repr(ours) == repr(entry)
        for question in ("is_dir", "is_file"):
            for follow in (True, False):
                answer = getattr(entry, question)(follow_symlinks=follow)
                assert getattr(ours, question)(follow_symlinks=follow) == answer
        assert ours.is_symlink() == entry.is_symlink()
        assert ours.inode() == entry.inode()
    assert merged["new.txt"].is_file()
    assert merged["new.txt"].stat().st_size == 0


def test_entries_of_an_open_folder_have_bare_names(redirect: Redirect, project: Path) -> None:
    touch(redirect, project / "data" / "b.txt")
    folder = os.open(project / "data", os.O_RDONLY)
    try:
        paths = sorted(entry.path for entry in redirect.listing.scandir(folder))
    finally:
        os.close(folder)
    assert paths == ["a.txt", "b.txt"]


def test_an_untouched_folder_is_listed_by_the_system_itself(
    redirect: Redirect, project: Path
) -> None:
    with redirect.listing.scandir(project / "data") as entries:
        assert [type(entry) for entry in entries] == [os.DirEntry]


def test_the_scratch_folder_is_not_shown(redirect: Redirect, project: Path) -> None:
    assert set(redirect.listing.listdir(project.parent)) == {"project"}


def test_what_is_no_folder_is_not_listed(redirect: Redirect, project: Path) -> None:
    touch(redirect, project / "new.txt")
    for name in ("new.txt", "log.jsonl"):
        with pytest.raises(NotADirectoryError):
            redirect.listing.listdir(project / name)
    redirect.changing.remove(project / "new.txt")
    with pytest.raises(FileNotFoundError):
        redirect.listing.listdir(project / "new.txt")
