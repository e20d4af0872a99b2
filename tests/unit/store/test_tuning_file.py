from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.errors import FormatError, UsageError
from stepscope.model.change import Applied, Change
from stepscope.store.tuning_file import read_applied, read_changes, write_changes

CHANGES = (
    Change(
        "loader",
        'Let 2 workers "prepare"\tbatches',
        {"num_workers": 2, "persistent_workers": True, "site": {"file": "a b.py", "line": 3}},
        (1.2, 1.5),
    ),
    Change("float32", "Compute in single precision", {}, None, "precision", 1.0),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "stepscope.toml"
    write_changes(path, CHANGES, "train.py --lr 1\nx = 3")
    assert read_changes(path) == CHANGES


def test_a_file_can_be_written_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[changes]]\nname = "gc"\n')
    assert read_changes(path) == (Change("gc", "gc"),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "changes = 3",
        "[[changes]]\ntitle = 'no name'",
        "schema = 99\n[[changes]]\nname = 'gc'",
        "[[changes]]\nname = 'gc'\nsettings = 3",
        "[[changes]]\nname = 'gc'\nsettings = {at = 2026-01-01}",
        "[[changes]]\nname = 'gc'\nsamples = inf",
        "not toml",
        "changes = [1]",
    ],
)
def test_what_holds_no_changes_is_refused_in_plain_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stepscope.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"stepscope\.toml"):
        read_changes(path)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read_changes(tmp_path / "none.toml")


def test_what_changes_told_is_read_once_each_and_torn_lines_are_passed_by(tmp_path: Path) -> None:
    path = tmp_path / "applied.jsonl"
    line = '{"change": "gc", "what": "froze", "refused": false}\n'
    path.write_text(line + line + '{"change": "gc", "wha')
    assert read_applied(path) == (Applied("gc", "froze"),)
    assert read_applied(tmp_path / "none") == ()
