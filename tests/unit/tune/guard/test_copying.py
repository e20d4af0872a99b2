"""Originals that are brought into the scratch folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.tune.guard import raw
from stepscope.tune.guard.copying import copy_file
from stepscope.tune.guard.redirect import Redirect


def test_a_file_that_does_not_fit_twice_is_refused_by_name(
    redirect: Redirect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = os.statvfs(project)
    full = os.statvfs_result((*free[:4], 0, *free[5:]))  # f_bavail
    monkeypatch.setattr(raw, "statvfs", lambda _: full)
    with pytest.raises(OSError, match=r"no room for a copy.*log\.jsonl"):
        redirect.opening.open(project / "log.jsonl", "a")
    with redirect.opening.open(project / "log.jsonl", "w") as file:
        file.write("truncated files need no copy")


def test_two_that_bring_the_same_file_agree(redirect: Redirect, project: Path) -> None:
    spot = redirect.view.find(project / "log.jsonl")
    place = redirect.copying.bring(spot)
    Path(place).write_text("changed meanwhile")
    assert redirect.copying.bring(spot) == place
    assert Path(place).read_text() == "changed meanwhile"


def test_nothing_is_left_beside_a_copy(redirect: Redirect, project: Path, scratch: Path) -> None:
    redirect.copying.bring_all(redirect.view.find(project))
    assert {entry.name for entry in scratch.iterdir()} == {"files", "gone"}
    copied = Path(redirect.view.find(project).upper)
    assert (copied / "checkpoints" / "old" / "1.pt").read_bytes() == b"one"
    assert (copied / "linked").readlink() == Path("data")


def test_content_is_copied_where_the_kernel_cannot_do_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(raw, "copy_file_range", refuse)
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    copy_file(str(source), str(tmp_path / "target"), source.stat())
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
