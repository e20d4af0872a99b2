"""Making, moving and removing: seen by the program, never done to the originals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.tune.guard.redirect import Redirect


def exists(redirect: Redirect, path: Path) -> bool:
    try:
        redirect.reading.lstat(path)
    except OSError:
        return False
    return True


def write(redirect: Redirect, path: Path, text: str) -> None:
    with redirect.opening.open(path, "w") as file:
        file.write(text)


def read(redirect: Redirect, path: Path) -> str:
    with redirect.opening.open(path) as file:
        return str(file.read())


def test_a_removed_original_is_hidden(redirect: Redirect, project: Path) -> None:
    redirect.changing.remove(project / "log.jsonl")
    assert not exists(redirect, project / "log.jsonl")
    with pytest.raises(FileNotFoundError):
        read(redirect, project / "log.jsonl")
    with pytest.raises(FileNotFoundError):
        redirect.changing.remove(project / "log.jsonl")
    write(redirect, project / "log.jsonl", "anew")
    assert read(redirect, project / "log.jsonl") == "anew"
    redirect.changing.remove(project / "log.jsonl")
    assert not exists(redirect, project / "log.jsonl")


def test_a_folder_that_is_removed_and_made_again_is_empty(
    redirect: Redirect, project: Path
) -> None:
    folder = project / "checkpoints" / "old"
    with pytest.raises(OSError, match="not empty"):
        redirect.changing.rmdir(folder)
    redirect.changing.remove(folder / "1.pt")
    redirect.changing.rmdir(folder)
    assert not exists(redirect, folder)
    redirect.changing.mkdir(folder)
    assert redirect.listing.listdir(folder) == []
    assert not exists(redirect, folder / "1.pt")


def test_a_checkpoint_is_put_in_place_of_the_old_one(redirect: Redirect, project: Path) -> None:
    write(redirect, project / "checkpoints" / "last.tmp", "new")
    redirect.changing.rename(
        project / "checkpoints" / "last.tmp", project / "checkpoints" / "last.pt"
    )
    assert read(redirect, project / "checkpoints" / "last.pt") == "new"
    assert sorted(redirect.listing.listdir(project / "checkpoints")) == [
        "best.pt",
        "last.pt",
        "old",
    ]


def test_an_original_that_is_moved_is_found_in_the_new_place_alone(
    redirect: Redirect, project: Path
) -> None:
    redirect.changing.rename(project / "log.jsonl", project / "data" / "log.1")
    assert not exists(redirect, project / "log.jsonl")
    assert read(redirect, project / "data" / "log.1") == '{"step": 1}\n'


def test_a_folder_moves_with_all_that_is_in_it(redirect: Redirect, project: Path) -> None:
    write(redirect, project / "checkpoints" / "new.pt", "new")
    redirect.changing.remove(project / "checkpoints" / "best.pt")
    redirect.changing.rename(project / "checkpoints", project / "kept")
    assert not exists(redirect, project / "checkpoints")
    assert sorted(redirect.listing.listdir(project / "kept")) == ["last.pt", "new.pt", "old"]
    assert read(redirect, project / "kept" / "old" / "1.pt") == "one"


def test_a_folder_takes_the_place_of_an_empty_one_only(redirect: Redirect, project: Path) -> None:
    redirect.changing.mkdir(project / "new")
    with pytest.raises(OSError, match="not empty"):
        redirect.changing.rename(project / "new", project / "data")
    redirect.changing.remove(project / "data" / "a.txt")
    redirect.changing.rename(project / "new", project / "data")
    assert redirect.listing.listdir(project / "data") == []


def test_files_and_folders_do_not_replace_each_other(redirect: Redirect, project: Path) -> None:
    with pytest.raises(IsADirectoryError):
        redirect.changing.rename(project / "log.jsonl", project / "data")
    with pytest.raises(NotADirectoryError):
        redirect.changing.rename(project / "data", project / "log.jsonl")
    with pytest.raises(IsADirectoryError):
        redirect.changing.remove(project / "data")
    with pytest.raises(NotADirectoryError):
        redirect.changing.rmdir(project / "log.jsonl")


def test_moving_something_onto_itself_changes_nothing(redirect: Redirect, project: Path) -> None:
    redirect.changing.rename(project / "linked" / "a.txt", project / "data" / "a.txt")
    assert read(redirect, project / "data" / "a.txt") == "a"


def test_a_folder_is_made_once(redirect: Redirect, project: Path) -> None:
    redirect.changing.mkdir(project / "data" / "sub")
    for taken in ("data", "data/sub", "log.jsonl"):
        with pytest.raises(FileExistsError):
            redirect.changing.mkdir(project / taken)
    with pytest.raises(FileNotFoundError):
        redirect.changing.mkdir(project / "none" / "sub")


def test_a_folder_that_was_looked_for_in_vain_is_found_once_it_is_made(
    redirect: Redirect, project: Path
) -> None:
    assert not exists(redirect, project / "run" / "file")
    redirect.changing.mkdir(project / "run")
    write(redirect, project / "run" / "file", "f")
    assert read(redirect, project / "run" / "file") == "f"


def test_a_link_of_the_program_is_followed(redirect: Redirect, project: Path) -> None:
    redirect.changing.symlink("checkpoints", project / "latest")
    assert read(redirect, project / "latest" / "last.pt") == "the last"
    redirect.changing.remove(project / "latest")
    redirect.changing.symlink("data", project / "latest")
    write(redirect, project / "latest" / "b.txt", "b")
    assert read(redirect, project / "data" / "b.txt") == "b"
    assert [entry.name for entry in redirect.listing.scandir(project / "latest")] == [
        "b.txt",
        "a.txt",
    ]


def test_a_file_that_takes_the_place_of_a_link_has_nothing_below(
    redirect: Redirect, project: Path
) -> None:
    redirect.changing.rename(project / "log.jsonl", project / "linked")
    assert read(redirect, project / "linked") == '{"step": 1}\n'
    assert not exists(redirect, project / "linked" / "a.txt")


def test_a_link_is_put_in_place_of_another(redirect: Redirect, project: Path) -> None:
    assert read(redirect, project / "linked" / "a.txt") == "a"
    redirect.changing.symlink("checkpoints", project / "new")
    redirect.changing.rename(project / "new", project / "linked")
    assert read(redirect, project / "linked" / "best.pt") == "the best"
    redirect.changing.remove(project / "linked")
    redirect.changing.link(project / "linked.txt", project / "linked")
    assert redirect.reading.readlink(project / "linked") == "data/a.txt"


def test_nothing_moves_into_itself(redirect: Redirect, project: Path) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        redirect.changing.rename(project / "data", project / "data" / "below")
    with pytest.raises(OSError, match="not empty"):
        redirect.changing.rename(project / "data" / "a.txt", project / "data")
    assert read(redirect, project / "data" / "a.txt") == "a"


def test_a_hard_link_is_to_the_copy(redirect: Redirect, project: Path) -> None:
    redirect.changing.link(project / "log.jsonl", project / "same")
    write(redirect, project / "same", "changed")
    assert read(redirect, project / "log.jsonl") == "changed"


def test_names_relative_to_open_folders_are_understood(redirect: Redirect, project: Path) -> None:
    folder = os.open(project / "data", os.O_RDONLY)
    try:
        redirect.changing.rename("a.txt", "b.txt", src_dir_fd=folder, dst_dir_fd=folder)
        assert redirect.listing.listdir(folder) == ["b.txt"]
        redirect.changing.remove("b.txt", dir_fd=folder)
        assert redirect.listing.listdir(folder) == []
    finally:
        os.close(folder)


def test_a_temporary_file_moves_in_from_another_file_system(
    redirect: Redirect, project: Path
) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == project.stat().st_dev:
        pytest.skip("there is no second file system")
    source = shared / f"stepscope-{os.getpid()}"
    source.write_text("from afar")
    redirect.changing.rename(source, project / "log.jsonl")
    assert read(redirect, project / "log.jsonl") == "from afar"
    assert not source.exists()


def test_a_pipe_can_be_made(redirect: Redirect, project: Path) -> None:
    redirect.changing.mkfifo(project / "pipe")
    assert "pipe" in redirect.listing.listdir(project)
