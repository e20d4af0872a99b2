from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stepscope.errors import UsageError
from stepscope.monitor.registry import unregister_rule
from stepscope.session.watch_rules import check_rules, load_rules


def test_rules_come_from_a_file_or_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[rules.stall]\nafter = 7\n")
    assert load_rules(str(path)).rules.stall.after == 7
    assert check_rules(str(path)) == str(path)
    assert check_rules("default") == "default"
    assert load_rules("default").rules.stall.enabled


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[rules.stall]\nafter = 'often'\n", "after"),
        (b"[rules.stal]\nafter = 7\n", "stall"),
        (b"[rules\n", "no TOML"),
        (b"\xff\xfe", "no TOML"),
        (b"a = " + b"[" * 2000, "no TOML"),
        (b"#" * 1_000_001, "longer than 1 MB"),
    ],
)
def test_a_mistake_is_told_with_the_file_and_what_is_wrong(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=says) as error:
        load_rules(str(path))
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        check_rules(str(tmp_path / "nothing.toml"))


def installed(folder: Path, content: str) -> None:
    """A package with a rule of its own."""
    (folder / "plateau_rule.py").write_text(content)
    about = folder / "plateau_rule-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plateau-rule\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stepscope.rules]\nplateau = plateau_rule:Plateau\n")


def test_an_installed_package_brings_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = "from stepscope.monitor.rule import Rule\nclass Plateau(Rule):\n"
    installed(tmp_path, rule + "    def __init__(self, options): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        (custom,) = load_rules("default").custom
        assert custom.name == "plateau"
    finally:
        unregister_rule("plateau")


def test_a_package_whose_rule_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "raise ImportError('no such thing')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "plateau_rule", raising=False)
    with pytest.raises(UsageError, match=r"plateau.*no such thing"):
        load_rules("default")


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rules.toml")
    with pytest.raises(UsageError, match="no regular file"):
        load_rules(str(tmp_path / "rules.toml"))
