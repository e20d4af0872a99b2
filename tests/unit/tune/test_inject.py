"""Changes in a program: what one does wrong reaches neither the program nor the other changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import UsageError
from stepscope.model.change import Applied, Change
from stepscope.store.tuning_file import read_applied
from stepscope.tune.changes import NAMES, injection_class
from stepscope.tune.inject import Injections, injections_for
from stepscope.tune.injection import APPLIED_FILE, Injection, Site, Teller, users_site


class Kept:
    """Whom a change tells, in a test."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def applied(self, what: str, site: Site | None = None) -> None:
        self.told.append(("applied", what))

    def refused(self, why: str, site: Site | None = None) -> None:
        self.told.append(("refused", why))

    def failed(self, where: str, error: BaseException) -> None:
        self.told.append(("failed", f"{where}: {error}"))


class Breaks(Injection):
    name = "breaks"

    def install(self) -> None:
        raise KeyError("install")

    def stepped(self, optimizer: Any) -> None:
        raise KeyError("stepped")


class Counts(Injection):
    name = "counts"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[str] = []

    def install(self) -> None:
        self.calls.append("install")

    def seen(self, module: Any) -> None:
        self.calls.append("seen")

    def stepped(self, optimizer: Any) -> None:
        self.calls.append("stepped")

    def finish(self) -> None:
        self.calls.append("finish")


def test_one_that_fails_does_not_keep_the_others_from_their_work() -> None:
    kept = Kept()
    counts = Counts({}, kept)
    both = Injections([Breaks({}, kept), counts])
    both.install()
    both.seen(None)
    both.stepped(None)
    both.finish()
    assert counts.calls == ["install", "seen", "stepped", "finish"]
    assert [what for what, _ in kept.told] == ["failed", "failed"]


@pytest.mark.parametrize("name", NAMES)
def test_every_change_of_the_catalogue_is_there_under_its_name(name: str) -> None:
    assert injection_class(name).name == name


def test_an_unknown_change_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="loader"):
        injection_class("magic")


def test_what_a_change_tells_lies_in_the_run_folder_once(tmp_path: Path) -> None:
    errors: list[str] = []
    teller = Teller(tmp_path, "gc", lambda where, error: errors.append(where))
    for _ in range(2):
        teller.applied("froze", Site("train.py", 3, "main"))
    teller.refused("no loop")
    teller.failed("collecting", ValueError("x"))
    assert read_applied(tmp_path / APPLIED_FILE) == (
        Applied("gc", "froze", False, "train.py", 3, "main"),
        Applied("gc", "no loop", True),
        Applied("gc", "collecting failed: ValueError: x", True),
    )
    assert errors == ["change gc: collecting"]


def test_a_run_folder_that_is_gone_is_an_error_of_ours_and_not_of_the_program(
    tmp_path: Path,
) -> None:
    errors: list[str] = []
    Teller(tmp_path / "gone", "gc", lambda where, _: errors.append(where)).applied("froze")
    assert errors == ["telling of a change"]


def test_a_change_that_cannot_be_made_is_told_and_the_others_are(tmp_path: Path) -> None:
    text = json.dumps([{"name": "magic"}, Change("nothing", "").to_dict()])
    injections_for(text, tmp_path, lambda *_: None).install()
    told = read_applied(tmp_path / APPLIED_FILE)
    assert [(one.change, one.refused) for one in told] == [("magic", True), ("nothing", False)]


def test_the_line_of_the_users_is_found_below_ours() -> None:
    site = users_site()
    assert site is not None
    assert Path(site.file) == Path(__file__)
    assert site.function == "test_the_line_of_the_users_is_found_below_ours"
