"""Folders that are guarded, in this process and around others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.tune.guard.landlock import available
from stepscope.tune.guard.paths import View
from stepscope.tune.guard.redirect import Redirect
from tests.unit.tune.guard.world import World, fingerprint, make_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Whatever a test does, its files are what they were."""
    folder = make_project(tmp_path.resolve() / "project")
    before = fingerprint(folder)
    yield folder
    assert fingerprint(folder) == before


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "scratch"
    (folder / "files").mkdir(parents=True)
    return folder


@pytest.fixture
def redirect(scratch: Path) -> Redirect:
    """The redirected calls, not put in place of this process's own."""
    return Redirect(View(str(scratch), ["/dev", "/proc"]))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if not available():
        pytest.skip("this kernel has no Landlock")
    made = World.make(tmp_path.resolve())
    yield made
    made.guarded.remove()
