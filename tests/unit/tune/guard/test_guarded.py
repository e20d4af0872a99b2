"""The launcher's side of the guard."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from stepscope.tune.guard.guarded import prepare, unlock


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))


def test_trials_have_scratch_folders_of_their_own_and_one_cache(tmp_path: Path) -> None:
    one, two = (prepare(tmp_path / "tuning", tmp_path / "run") for _ in range(2))
    assert one.scratch != two.scratch
    assert one.temporary != two.temporary
    assert one.environment["STEPSCOPE_SCRATCH"] == str(one.scratch)
    assert one.environment["TMPDIR"] == str(one.temporary)
    shared = one.environment["TORCHINDUCTOR_CACHE_DIR"]
    assert shared == two.environment["TORCHINDUCTOR_CACHE_DIR"]
    assert Path(shared).is_dir()


def test_what_torch_compiles_into_the_temporary_folder_is_shared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = prepare(tmp_path / "tuning", tmp_path / "run")
    monkeypatch.setattr(tempfile, "tempdir", str(guarded.temporary))
    shared = Path(guarded.environment["TORCHINDUCTOR_CACHE_DIR"])
    assert Path(default_cache_dir()).resolve() == shared
    (shared / "header").write_text("not counted: it is no trial's own")
    assert guarded.written_bytes() == 0
    guarded.remove()
    assert (shared / "header").exists()


def test_both_layers_allow_the_same_folders(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    guarded = prepare(tmp_path / "tuning", tmp_path / "run", [tmp_path / "link"])
    words = guarded.prefix
    by_kernel = [words[at + 1] for at, word in enumerate(words) if word == "--allow"]
    assert words[-1] == "--"
    in_python = (guarded.scratch / "allowed").read_bytes().split(b"\0")
    assert by_kernel == [os.fsdecode(place) for place in in_python]
    for place in (guarded.scratch, guarded.temporary, tmp_path / "run", tmp_path / "real"):
        assert str(place.resolve()) in by_kernel
    assert str(tmp_path.resolve()) not in by_kernel


def test_what_was_written_is_counted(tmp_path: Path) -> None:
    guarded = prepare(tmp_path / "tuning", tmp_path / "run")
    assert guarded.written_bytes() == 0
    (guarded.scratch / "files" / "home").mkdir()
    (guarded.scratch / "files" / "home" / "a").write_bytes(bytes(70))
    (guarded.scratch / "files" / "link").symlink_to("nowhere")
    (guarded.temporary / "b").write_bytes(bytes(30))
    assert guarded.written_bytes() == 70 + 30 + len("nowhere")


def test_what_was_locked_is_unlocked_but_not_what_a_link_leads_to(tmp_path: Path) -> None:
    below = tmp_path / "locked" / "below"
    below.mkdir(parents=True)
    (tmp_path / "mine").mkdir(mode=0o500)
    (tmp_path / "locked" / "link").symlink_to(tmp_path / "mine")
    below.chmod(0o100)
    below.parent.chmod(0o500)
    unlock(tmp_path / "locked")
    assert below.stat().st_mode & 0o777 == 0o700
    assert below.parent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o500


def test_removing_takes_all_of_it_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    guarded = prepare(tmp_path / "tuning", tmp_path / "run")
    inside = guarded.scratch / "files" / "locked"
    inside.mkdir()
    (inside / "file").write_text("f")
    (inside / "link").symlink_to(tmp_path / "mine")
    inside.chmod(0o500)
    guarded.remove()
    guarded.remove()
    assert not guarded.scratch.exists()
    assert not guarded.temporary.exists()
    assert (tmp_path / "mine" / "file").read_text() == "mine"
