"""The sinks of docs/howto/alerts.md can be made, and its commands exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from stepscope.cli.parser import parse
from stepscope.monitor.settings import watch_settings
from stepscope.notify.build import ALERT_TYPES, SINK_TYPES, make_sinks
from stepscope.notify.sink import SinkContext

PAGE = Path(__file__).parents[2].joinpath("docs", "howto", "alerts.md").read_text("utf-8")
TABLES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_sink_of_the_page_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "logger"  # which a machine may lack
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CHAT_WEBHOOK", "https://chat.example.org/s3cret")
    for name in ("HOOK_TOKEN", "SMTP_USER", "SMTP_PASSWORD"):
        monkeypatch.setenv(name, "s3cret")
    context = SinkContext("r", "host", 1, tmp_path)
    types = set()
    for table in TABLES:
        tables = watch_settings(tomllib.loads(table)).sinks
        types |= {one["type"] for one in tables}
        sinks, _ = make_sinks(tables, context)
        assert len(sinks) == len(tables)
        assert "s3cret" not in "".join(sink.name for sink in sinks)
    assert types == set(ALERT_TYPES) - {"otlp"}


def test_the_page_names_every_type() -> None:
    assert [name for name in SINK_TYPES if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("command", re.findall(r"^stepscope (alerts[^#\n]*)#", PAGE, re.MULTILINE))
def test_every_command_of_the_page_is_understood(command: str) -> None:
    assert callable(parse(command.split()))
