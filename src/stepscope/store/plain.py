"""Frozen values ⇄ plain JSON, by the types that their classes state."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from stepscope.errors import FormatError

__all__ = ["from_plain", "to_plain"]

_AS_IT_IS = frozenset({str, int, bool, type(None)})
_DEPTH = 400  # the deepest tree that is taken


def to_plain(value: Any) -> Any:
    """Lists, dicts, numbers, strings. Raises FormatError for what JSON cannot say."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise FormatError(f"{value} cannot be stored: it is no number.")
        return value
    names = _names_of(kind)
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, StrEnum):
        return value.value
    raise FormatError(f"A {kind.__name__} cannot be stored.")


@cache
def _names_of(kind: Any) -> tuple[str, ...] | None:
    """Of the fields; None: it has none. Cached: a flame has thousands of nodes."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", None) if issubclass(kind, tuple) else None


def from_plain(kind: Any, plain: Any, where: str, depth: int = 0) -> Any:
    """A value of type `kind`. What is missing takes its default, what is not known is passed over;
    FormatError says where something else stands."""
    if depth > _DEPTH:
        raise FormatError(f"{where} is nested too deeply.")
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        return None if plain is None else from_plain(inner, plain, where, depth)
    if origin is tuple:
        inner = get_args(kind)[0]
        listed = enumerate(_expect(list, plain, where))
        return tuple(from_plain(inner, one, f"{where}[{at}]", depth + 1) for at, one in listed)
    if origin is not None:  # a Mapping[str, …]
        inner = get_args(kind)[1]
        named = _expect(dict, plain, where).items()
        return {name: from_plain(inner, one, f"{where}.{name}", depth + 1) for name, one in named}
    if kind is Any:
        return plain
    if kind is float:
        return _number(plain, where)
    if kind in (int, str, bool):
        return _expect(kind, plain, where)
    if issubclass(kind, StrEnum):
        return _member(kind, _expect(str, plain, where), where)
    return _object(kind, plain, where, depth)


def _member(kind: type[StrEnum], text: str, where: str) -> StrEnum:
    try:
        return kind(text)
    except ValueError:
        raise FormatError(f"{where} should be one of {', '.join(kind)}.") from None


def _object(kind: Any, plain: Any, where: str, depth: int) -> Any:
    given = _expect(dict, plain, where)
    made = {}
    for name, (inner, needed) in _fields_of(kind).items():
        if name in given:
            made[name] = from_plain(inner, given[name], f"{where}.{name}", depth + 1)
        elif needed:
            raise FormatError(f"{where} has no {name}.")
    return kind(**made)


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether it must be given."""
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        optional = {
            field.name
            for field in fields(kind)
            if field.default is not MISSING or field.default_factory is not MISSING
        }
    else:
        optional = set(kind._field_defaults)
    return {name: (hint, name not in optional) for name, hint in hints.items()}


def _expect(kind: type, plain: Any, where: str) -> Any:
    if isinstance(plain, kind) and (kind is bool or not isinstance(plain, bool)):
        return plain
    raise FormatError(f"{where} should be {_WORDS[kind]}, and is {_shown(plain)}.")


def _number(plain: Any, where: str) -> float:
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise FormatError(f"{where} should be a number, and is {_shown(plain)}.")
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormatError(f"{where} is no finite number.")
    return number


def _shown(plain: Any) -> str:
    text = repr(plain)
    return text if len(text) <= 40 else f"{text[:37]}…"


_WORDS = {
    int: "a whole number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
