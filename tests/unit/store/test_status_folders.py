from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.store.status_folders import (
    make_status_folder,
    remove_status_folder,
    sweep_status_folders,
)

# A launcher that has made its folder and waits.
LAUNCHER = """
import sys, time
from pathlib import Path
from stepscope.store.status_folders import make_status_folder
print(make_status_folder(Path(sys.argv[1])), flush=True)
time.sleep(600)
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def folder_of(launcher: subprocess.Popen[str]) -> Path:
    assert launcher.stdout is not None
    return Path(launcher.stdout.readline().strip())


def test_a_folder_is_swept_when_its_launcher_was_killed_and_not_before(
    launcher: subprocess.Popen[str],
) -> None:
    folder = folder_of(launcher)
    (folder / "control").write_bytes(b"x")
    sweep_status_folders()
    assert (folder / "control").exists()
    launcher.kill()
    launcher.wait()
    assert folder.exists()
    sweep_status_folders()
    assert not folder.exists()


def leave(parent: Path, name: str = "stepscope-1-1") -> Path:
    """A folder as a killed launcher leaves it."""
    folder = parent / name
    folder.mkdir(0o700)
    (folder / "control").write_bytes(b"x")
    return folder


def test_a_program_that_outlives_its_launcher_keeps_its_folder(tmp_path: Path) -> None:
    folder = leave(tmp_path)
    page = folder / f"{os.getpid()}.status"
    page.write_bytes(b"x")
    sweep_status_folders([tmp_path])
    assert page.exists()
    page.rename(folder / "0.status")  # all processes have ended
    sweep_status_folders([tmp_path])
    assert not folder.exists()


def test_only_folders_with_a_name_of_ours_are_swept(tmp_path: Path) -> None:
    names = ["stepscope-abc", "stepscope-1-1-x", "stepscope-tune-1", "other-1-1", "stepscope-1"]
    kept = [leave(tmp_path, name) for name in names]
    (tmp_path / "stepscope-2-2").write_text("a file of that name")
    sweep_status_folders([tmp_path, tmp_path / "missing"])
    assert all((folder / "control").exists() for folder in kept)
    assert (tmp_path / "stepscope-2-2").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("x")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "stepscope-1-1").symlink_to(victim)
    folder = leave(shared, "stepscope-2-2")
    (folder / "link").symlink_to(victim)
    sweep_status_folders([shared])
    assert (shared / "stepscope-1-1").is_symlink()
    assert not folder.exists()
    assert (victim / "file").exists()


def test_folders_of_another_user_are_left_alone(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make one")
    folder = leave(tmp_path)
    os.chown(folder, 12345, 12345)
    sweep_status_folders([tmp_path])
    assert folder.exists()


def test_a_folder_is_private_and_gone_when_it_is_removed(tmp_path: Path) -> None:
    folder = make_status_folder(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    remove_status_folder(folder)
    assert not folder.exists()
