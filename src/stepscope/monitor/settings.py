"""What a run is watched by: read from what a file or a config holds.

rules.toml, in full (durations "30s", "5m", "2h" or seconds; shares "5%" or 0.05):

    [watch]
    cooldown = "10m"

    [rules.stall]
    after = 10
    capture = true

    [rules.gc]
    enabled = false

    [[threshold]]
    metric = "memory_ratio"
    above = "85%"
    for = "1m"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from stepscope.errors import UsageError
from stepscope.monitor.registry import registered_rules
from stepscope.monitor.rule_settings import RULES, Common, Custom, Rules, Threshold, Watch
from stepscope.monitor.table import as_table, as_tables, read_table, refuse_unknown

__all__ = ["WatchSettings", "watch_settings"]

_MOST_THRESHOLDS: Final = 200


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """sinks: as they stand in the file; notify/ reads them."""

    watch: Watch = field(default_factory=Watch)
    rules: Rules = field(default_factory=Rules)
    thresholds: tuple[Threshold, ...] = ()
    custom: tuple[Custom, ...] = ()
    sinks: tuple[Mapping[str, Any], ...] = ()


def watch_settings(mapping: Mapping[str, Any]) -> WatchSettings:
    """What a rules.toml holds, for our rules and those that were registered.

    Raises UsageError for unknown keys, wrong types and impossible values; it names the key, what is
    allowed and the nearest that is known.
    """
    table = as_table(mapping, "the rules")
    registered = registered_rules()
    refuse_unknown(table, ("watch", "rules", "threshold", "sink"), "the rules")
    rules = as_table(table.get("rules", {}), "rules")
    refuse_unknown(rules, (*RULES, *registered), "rules")
    return WatchSettings(
        watch=read_table(Watch, table.get("watch", {}), "watch"),
        rules=_rules(rules),
        thresholds=_thresholds(table.get("threshold", ())),
        custom=tuple(_custom(name, rules.get(name, {})) for name in registered),
        sinks=as_tables(table.get("sink", ()), "sink"),
    )


def _rules(tables: Mapping[str, Any]) -> Rules:
    read: dict[str, Any] = {
        one.name: read_table(type(one.default), tables[one.name], f"rules.{one.name}")
        for one in fields(Rules)
        if one.name in tables
    }
    return Rules(**read)


def _thresholds(given: Any) -> tuple[Threshold, ...]:
    tables = as_tables(given, "threshold")
    if len(tables) > _MOST_THRESHOLDS:
        raise UsageError(f"There are {len(tables)} thresholds: {_MOST_THRESHOLDS} at most.")
    found = tuple(
        read_table(Threshold, one, f"threshold {place}") for place, one in enumerate(tables, 1)
    )
    titles = [one.title for one in found if one.name]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise UsageError(f"Two thresholds have the name {twice!r}: give each its own.")
    return found


def _custom(name: str, given: Any) -> Custom:
    """Its own options are its own business; those of all rules are read here."""
    table = as_table(given, f"rules.{name}")
    common = {one.name for one in fields(Common)} | {"hold"}
    read = read_table(Common, {key: table[key] for key in table if key in common}, f"rules.{name}")
    options = MappingProxyType({key: table[key] for key in table if key not in common})
    return Custom(read.enabled, read.capture, read.hold_s, name, options)
