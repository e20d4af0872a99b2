from __future__ import annotations

import io
import sys

import pytest

from stepscope.session.troubles import Troubles, say


def test_what_fails_within_a_guard_is_told_once_in_one_line() -> None:
    troubles = Troubles()
    for _ in range(3):
        with troubles.guard("reading"):
            raise ValueError("two\nlines")
    assert troubles.lines == ["reading failed: ValueError: two lines"]


def test_an_error_without_words_is_told_by_its_kind() -> None:
    troubles = Troubles()
    with troubles.guard("reading"):
        raise KeyError
    assert troubles.lines == ["reading failed: KeyError"]


def test_what_the_disk_says_is_told_as_it_is() -> None:
    troubles = Troubles()
    with troubles.guard("writing"):
        raise OSError(28, "No space left on device", "/some/path")
    assert troubles.lines == ["writing failed: No space left on device"]


def test_the_end_of_the_program_is_not_held_back() -> None:
    with pytest.raises(SystemExit), Troubles().guard("x"):
        raise SystemExit


def test_a_stderr_that_does_not_work_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("x")
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    say("x")
    assert capsys.readouterr().out == ""
