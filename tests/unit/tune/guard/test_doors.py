"""What stands in place of built-in functions."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import pytest

from stepscope.tune.guard.doors import Door, put_in_place


def test_errors_name_the_file_as_the_program_did() -> None:
    def act(*_: object) -> None:
        raise FileNotFoundError(2, "No such file", "/scratch/files/a")

    with pytest.raises(FileNotFoundError) as caught:
        Door(os.remove, act)("a")
    assert caught.value.filename == "a"
    with pytest.raises(FileNotFoundError) as caught:
        Door(os.rename, act, paths=2)("a", "b")
    assert (caught.value.filename, caught.value.filename2) == ("a", "b")


def test_a_door_looks_like_what_it_stands_for() -> None:
    door = Door(os.remove, lambda path: path)
    assert (door.__name__, door.__doc__) == (os.remove.__name__, os.remove.__doc__)
    assert repr(door) == repr(os.remove)
    holder = type("Holder", (), {"call": door})()
    assert holder.call("x") == "x"


def test_every_module_that_knows_it_by_name_gets_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    def original() -> int:
        return 1

    def new() -> int:
        return 2

    module = ModuleType("knows_it")
    module.known_as = original  # type: ignore[attr-defined]
    module.other = len  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "knows_it", module)
    monkeypatch.setattr(os, "supports_fd", {original, os.stat})
    put_in_place({original: new})
    assert module.known_as is new
    assert module.other is len
    assert os.supports_fd == {original, new, os.stat}
