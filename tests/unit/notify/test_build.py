from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import MissingExtraError, UsageError
from stepscope.notify.build import SINK_TYPES, Chosen, make_sinks
from tests.unit.notify.alerts_by_hand import context, firing


def test_tables_become_sinks_with_names_that_tell_them_apart(tmp_path: Path) -> None:
    tables: list[dict[str, Any]] = [
        {"type": "log", "path": "all.log"},
        {"type": "webhook", "url": "https://example.org/x", "name": "on call"},
        {"type": "command", "command": ["true"], "min_severity": 0.5, "rules": ["stall"]},
        {"type": "bell"},
    ]
    alerts, metrics = make_sinks(tables, context(tmp_path))
    names = [sink.name for sink in alerts]
    assert names[:2] == ["log all.log", "webhook on call"]
    assert names[2].startswith("command true #")
    assert names[3] == "bell"
    assert metrics == []


def test_a_sink_hears_of_the_alerts_it_wants(tmp_path: Path) -> None:
    def wants(**table: Any) -> bool:
        ((sink,), _) = make_sinks([{"type": "bell", **table}], context(tmp_path))
        assert isinstance(sink, Chosen)
        return sink.wants(firing())  # of the rule slowdown, severity 0.9

    assert wants()
    assert wants(min_severity=0.9, rules=["stall", "slowdown"])
    assert not wants(min_severity=0.91)
    assert not wants(rules=["stall"])


@pytest.mark.parametrize("type", ["pager", None, [], "../log"])
def test_a_type_that_there_is_not_is_refused_with_those_there_are(
    tmp_path: Path, type: Any
) -> None:
    with pytest.raises(UsageError, match=", ".join(SINK_TYPES)):
        make_sinks([{"type": type}], context(tmp_path))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "log", "pathh": "x"}, "no setting 'pathh': there are type, name, min_severity"),
        ({"type": "webhook"}, r"needs url \(a text\)"),
        ({"type": "webhook", "url": 5}, "url of the webhook sink has to be a text"),
        ({"type": "webhook", "url": "http://a", "format": "x"}, "it can be 'json' or 'slack'"),
        ({"type": "webhook", "url": "http://a", "timeout_s": 1e9}, "a number from 0.1 to 60"),
        ({"type": "webhook", "url": "http://a", "timeout_s": True}, "a number from 0.1 to 60"),
        ({"type": "webhook", "url": "http://a", "headers": {"a": 1}}, "a table of texts"),
        ({"type": "bell", "desktop": "yes"}, "true or false"),
        ({"type": "bell", "min_severity": 2}, "a number from 0 to 1"),
        ({"type": "bell", "min_severity": float("nan")}, "a number from 0 to 1"),
        ({"type": "bell", "rules": "stall"}, "a list of texts"),
        ({"type": "bell", "rules": [1]}, "a list of texts"),
        ({"type": "bell", "name": "a\nb"}, "in one line"),
        ("bell", "has to be a table"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(tmp_path: Path, table: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_sinks([table], context(tmp_path))


def test_the_same_sink_twice_needs_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there twice"):
        make_sinks([{"type": "bell"}, {"type": "bell"}], context(tmp_path))
    tables = [{"type": "bell"}, {"type": "bell", "name": "b"}]
    assert [sink.name for sink in make_sinks(tables, context(tmp_path))[0]] == ["bell", "bell b"]


def test_a_part_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'stepscope\[watch\]'"):
        make_sinks([{"type": "log"}], context(tmp_path))
