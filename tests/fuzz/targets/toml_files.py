"""The two .toml files: rules for --watch, and the changes that stepscope tune wrote."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from stepscope.monitor.settings import watch_settings
from stepscope.notify.build import make_sinks
from stepscope.notify.sink import SinkContext
from stepscope.session.apply import applied_lines, changes_to_make
from stepscope.session.watch_rules import read_rules
from tests.fuzz.damage import damaged_bytes, damaged_document
from tests.fuzz.harness import Feed, Target

PAGES = Path(__file__).parents[3] / "docs" / "howto"
# These sinks reach nobody while they are made. Others start clients that look for a server.
HARMLESS = ("log", "webhook", "command", "mail", "bell", "prometheus", "tensorboard")
SINKS = """
[[sink]]
type = "webhook"
name = "on call"
url = "https://hooks.example/x"
min_severity = 0.5
rules = ["stall"]
[[sink]]
type = "mail"
host = "localhost"
from = "me@example.com"
to = ["you@example.com"]
[[sink]]
type = "command"
command = ["notify-send", "x"]
[[sink]]
type = "log"
path = "alerts.log"
[[sink]]
type = "prometheus"
port = 0
labels = { team = "vision" }
[[sink]]
type = "tensorboard"
limit_mb = 5
[[sink]]
type = "bell"
desktop = false
"""
CHANGES = """
schema = 1
[[changes]]
name = "loader"
title = "Two workers"
settings = { "workers" = 2, "pin_memory" = true }
expected_speedup = [1.2, 1.5]
[[changes]]
name = "batch"
title = "Twice the batch"
settings = { "factor" = 2.0, "sizes" = [1, 2, 3] }
alters = "batch-size"
samples = 2.0
"""

# Settings that make files outside of the test's folder, or look up names in the network.
OUTSIDE = ("file", "targets", "folder", "address")


def rules_file(folder: Path) -> Feed:
    examples = re.findall(r"```toml\n(.*?)```", _pages(), re.DOTALL)
    documents = [tomllib.loads(text) for text in (*examples, SINKS)]
    context = SinkContext("run", "host", 1, folder)

    def read(path: Path) -> None:
        tables = watch_settings(read_rules(path)).sinks  # load_rules without installed packages
        alerts, metrics = make_sinks([one for one in tables if _is_harmless(one)], context)
        for sink in alerts:
            sink.close()
        for exporter in metrics:
            exporter.close()

    return _feed(folder / "rules.toml", documents, read)


def tuning_file(folder: Path) -> Feed:
    def read(path: Path) -> None:
        list(applied_lines(folder, changes_to_make(path)))

    return _feed(folder / "stepscope.toml", [tomllib.loads(CHANGES)], read)


def _pages() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(PAGES.glob("*.md")))


def _is_harmless(table: Any) -> bool:
    if not isinstance(table, dict):
        return True
    return table.get("type") in HARMLESS and not any(key in table for key in OUTSIDE)


def _feed(path: Path, documents: list[Any], read: Callable[[Path], None]) -> Feed:
    def feed(random: Random) -> None:
        document = random.choice(documents)
        if random.random() < 0.7:
            content = _toml_text(damaged_document(document, random))
        else:
            content = damaged_bytes(_toml_text(document), random)
        path.write_bytes(content)
        read(path)

    return feed


def _toml_text(document: Any) -> bytes:
    if not isinstance(document, dict):
        document = {"value": document}
    lines = [f"{json.dumps(str(key))} = {_value(one)}" for key, one in document.items()]
    return "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{json.dumps(str(key))} = {_value(one)}" for key, one in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "1979-05-27T07:32:00Z" if value is None else json.dumps(value)


TARGETS = [Target("rules", rules_file), Target("stepscope.toml", tuning_file)]
