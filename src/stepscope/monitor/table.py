"""A table of settings → a frozen value, with messages that name the key and what is allowed."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from stepscope.errors import UsageError
from stepscope.monitor.quantities import Quantity

__all__ = ["as_table", "as_tables", "read_table", "refuse_unknown", "setting"]

Settings = TypeVar("Settings")
_KEY: Final = "key"
_READ: Final = "read"


def setting(default: Any, read: Quantity, key: str = "") -> Any:
    """A field of a settings value. key: its name in the table, unless it is the field's own without
    its unit (`hold_s` is written hold or hold_s)."""
    return dataclasses.field(default=default, metadata={_READ: read, _KEY: key})


def read_table(kind: type[Settings], given: Any, where: str) -> Settings:
    """Raises UsageError for what is no setting, of the wrong type or impossible."""
    table = as_table(given, where)
    fields = {name: field for field in dataclasses.fields(kind) for name in _names(field)}  # type: ignore[arg-type]
    refuse_unknown(table, fields, where)
    values: dict[str, Any] = {}
    for key, value in table.items():
        field = fields[key]
        if field.name in values:
            raise UsageError(f"{where} states {field.name} twice: as {' and '.join(_names(field))}")
        try:
            values[field.name] = field.metadata[_READ](value)
        except ValueError as error:
            raise UsageError(f"{where}.{key} is {_shown(value)}: it has to be {error}.") from None
    try:
        return kind(**values)
    except ValueError as error:  # what only shows with all of them: __post_init__
        raise UsageError(f"{where}: {error}") from None


def as_table(given: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UsageError(f"{where} has to be a table, [{where}] with one `key = value` a line.")
    return given


def as_tables(given: Any, where: str) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(one, Mapping) for one in given):
        raise UsageError(f"{where} has to be a list of tables: begin each with [[{where}]].")
    return tuple(given)


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    names = list(known)
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
            instead = f' Did you mean "{near[0]}"?' if near else ""
            raise UsageError(
                f"{where} has no setting {_shown(key)}.{instead} It has: {', '.join(names)}."
            )


def _names(field: Any) -> tuple[str, ...]:
    """How it may be written in a table, the plainest first."""
    if field.metadata.get(_KEY):
        return (field.metadata[_KEY],)
    plain = field.name.removesuffix("_s").removesuffix("_bytes")
    return (plain,) if plain == field.name else (plain, field.name)


def _shown(value: Any) -> str:
    """Short, so that a message stays one line whatever stands in a file."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
