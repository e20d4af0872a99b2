"""docs/howto/rules.md says what the settings are, with their defaults."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from stepscope.model.watching import Explained, Reading
from stepscope.monitor.core import Identity, Monitor
from stepscope.monitor.registry import unregister_rule
from stepscope.monitor.rule_settings import RULES, Common, Rules, Threshold, Watch
from stepscope.monitor.settings import watch_settings

PAGE = Path(__file__).parents[2].joinpath("docs", "howto", "rules.md").read_text("utf-8")
TABLES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMON = {one.name for one in fields(Common)}


def row_of(name: str) -> str:
    return next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))


def shown(name: str, default: Any) -> str:
    """A default as the page writes it."""
    if name.endswith("_s"):
        hours, minutes = default / 3600, default / 60
        if hours >= 1:
            return f"{hours:g} h"
        return f"{minutes:g} min" if minutes >= 1 else f"{default:g} s"
    return f"{default * 100:g} %" if isinstance(default, float) and default < 1 else f"{default:g}"


@pytest.mark.parametrize("table", TABLES)
def test_every_example_is_understood(table: str) -> None:
    watch_settings(tomllib.loads(table))


@pytest.mark.parametrize("rule", RULES)
def test_every_setting_of_a_rule_is_told_with_its_default(rule: str) -> None:
    row = row_of(rule)
    for one in fields(getattr(Rules(), rule)):
        if one.name not in COMMON:
            key = one.name.removesuffix("_s")
            assert f"`{key}` ({shown(one.name, one.default)})" in row, key
            assert f"`{key}`" in row.rpartition(" | ")[2], key


def test_every_setting_of_the_watch_is_told_with_its_default() -> None:
    for one in fields(Watch):
        row = row_of(one.name.removesuffix("_s"))
        assert f"| {shown(one.name, one.default)} |" in row


def test_the_rule_in_python_works_as_the_page_says() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    try:
        exec(example, {"__name__": "page"})
        monitor = Monitor(
            watch_settings({"rules": {"plateau": {"steps": 5}}}),
            Identity("run", "host"),
            lambda condition: Explained(),
            lambda: "id",
        )
        told = []
        for step in range(20):
            monitor.reading(Reading(step, "accuracy", min(step, 10) / 10, step=step))
            told += monitor.tick(step, 0.0)
        assert [(alert.rule, alert.finding.title) for alert in told] == [
            ("plateau", "No better accuracy since step 10")
        ]
        assert monitor.summary().broken == {}
    finally:
        unregister_rule("plateau")


def test_every_key_of_a_threshold_is_told() -> None:
    for one in fields(Threshold):
        assert f"`{one.name.removesuffix('_s')}`" in PAGE
