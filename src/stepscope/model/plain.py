"""Plain JSON ⇄ typed values. Every document that stepscope reads is decoded here.

The types of a class are the schema of its document: dataclasses, named tuples and typed dicts, with
`Annotated[…, Range(low, high)]` where only some numbers or lengths make sense. Whoever has a value
from `from_plain` need not check it again.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from stepscope.errors import FormatError
from stepscope.model.types import BottleneckType

__all__ = [
    "LARGEST",
    "Amount",
    "AnyNumber",
    "Count",
    "Factor",
    "FilePath",
    "Known",
    "Nanoseconds",
    "Range",
    "Shaped",
    "Share",
    "Text",
    "UnixTime",
    "from_json",
    "from_plain",
    "parse_json",
    "to_plain",
]

LARGEST = 1e39  # No number in a document is larger. A loss of type float32 ends below it.
_SCALARS = (str, int, float, bool)
_AS_IT_IS = frozenset({str, int, bool, type(None)})
_MAX_DIGITS = 40  # of a whole number: as many as LARGEST has


class Range(NamedTuple):
    """The bounds of a number, or of the length of a list, both included."""

    low: float
    high: float

    def problem(self, value: Any) -> str:
        """What is wrong with the value; "": nothing."""
        size = len(value) if isinstance(value, tuple | list) else value
        if self.low <= size <= self.high:
            return ""
        return f"{'has a length' if size is not value else 'is'} outside of {self:}"

    def __format__(self, spec: str) -> str:
        return f"{self.low:g} to {self.high:g}"


class Known(NamedTuple):
    """One of these texts."""

    values: Collection[str]

    def problem(self, value: str) -> str:
        if value in self.values:
            return ""
        return f"is {value!r:.40}, and should be one of {', '.join(self.values)}"


class Shaped(NamedTuple):
    """A mapping that is read as this typed dict, for code that writes it key by key."""

    kind: type


class _Matching(NamedTuple):
    pattern: re.Pattern[str]
    words: str

    def problem(self, value: str) -> str:
        return "" if self.pattern.fullmatch(value) else f"is not {self.words}"


Count = Annotated[int, Range(0, 1e18)]
Amount = Annotated[float, Range(0, 1e18)]  # a time or a size
Share = Annotated[float, Range(0, 1 + 1e-6)]  # Sums of shares are rounded.
Factor = Annotated[float, Range(1e-9, 1e9)]  # of a speed-up
UnixTime = Annotated[float, Range(0, 250e9)]  # Calendars end with the year 9999.
Nanoseconds = Annotated[int, Range(0, 1 << 62)]  # since 1970 or the start of the machine
AnyNumber = Annotated[float, Range(-LARGEST, LARGEST)]
# JSON can spell halves of characters, which UTF-8 has not; a path may hold bytes that are no UTF-8.
Text = Annotated[str, _Matching(re.compile(r"[^\ud800-\udfff]*", re.DOTALL), "text")]
FilePath = Annotated[
    str, _Matching(re.compile(r"[^\0\ud800-\udc7f\udd00-\udfff]*", re.DOTALL), "a path")
]
_MODERATE = (Range(-1e18, 1e18),)  # the bounds of numbers that state none


# ---- writing ----


def to_plain(value: Any) -> Any:
    """Lists, dicts, numbers, strings. Raises FormatError for what JSON cannot say."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise FormatError(f"{value} cannot be stored: it is no number.")
        return min(LARGEST, max(-LARGEST, value))
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
    """The field names of a class, or None if it has no fields."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", None) if issubclass(kind, tuple) else None


# ---- reading ----


def parse_json(text: str | bytes) -> Any:
    """Raises FormatError for what is not JSON, NaN and infinity included."""
    try:
        return json.loads(
            text, parse_int=_whole, parse_float=_fraction, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is not JSON ({error})") from error


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _fraction(digits: str) -> float:
    number = float(digits)
    if not -LARGEST <= number <= LARGEST:
        raise ValueError(f"{digits:.20} is too large")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def from_json(kind: Any, text: str | bytes, where: str) -> Any:
    """A value of type `kind` from a JSON text. Raises FormatError."""
    return from_plain(kind, parse_json(text), where)


def from_plain(kind: Any, plain: Any, where: str) -> Any:
    """A value of type `kind`. Missing fields take their defaults, unknown ones are ignored.

    FormatError says which part, counted from `where`, is something else.
    """
    try:
        return _made(kind, plain, where)
    except RecursionError as error:
        raise FormatError(f"{where} is nested too deeply.") from error


def _made(kind: Any, plain: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *limits = get_args(kind)
        if isinstance(limits[0], Shaped):
            return _made(limits[0].kind, plain, where)
        is_scalar = inner in _SCALARS
        made = _scalar(inner, plain, where) if is_scalar else _made(inner, plain, where)
        return _checked(made, limits, where)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        return None if plain is None else _made(inner, plain, where)
    if origin is tuple:
        return _tuple(get_args(kind), plain, where)
    if origin is list:
        return list(_tuple((*get_args(kind), Ellipsis), plain, where))
    if origin is not None:  # a Mapping[str, …]
        inner = get_args(kind)[1]
        named = _expect(dict, plain, where).items()
        return {name: _made(inner, one, f"{where}.{name}") for name, one in named}
    if kind is Any:
        return plain
    if kind in _SCALARS:
        made = _scalar(kind, plain, where)
        return _checked(made, _MODERATE, where) if kind in (int, float) else made
    if kind is BottleneckType:
        return _member(BottleneckType.register, _expect(str, plain, where), where)
    if issubclass(kind, StrEnum):
        return _member(kind, _expect(str, plain, where), where)
    return _object(kind, plain, where)


def _scalar(kind: Any, plain: Any, where: str) -> Any:
    return _number(plain, where) if kind is float else _expect(kind, plain, where)


def _checked(value: Any, limits: Collection[Any], where: str) -> Any:
    for limit in limits:
        problem = limit.problem(value)
        if problem:
            raise FormatError(f"{where} {problem}.")
    return value


def _tuple(inner: tuple[Any, ...], plain: Any, where: str) -> tuple[Any, ...]:
    listed = _expect(list, plain, where)
    if len(inner) == 2 and inner[1] is Ellipsis:
        inner = inner[:1] * len(listed)
    elif len(inner) != len(listed):
        raise FormatError(f"{where} should have {len(inner)} parts, and has {len(listed)}.")
    return tuple(
        _made(kind, one, f"{where}[{at}]")
        for at, (kind, one) in enumerate(zip(inner, listed, strict=True))
    )


def _member(kind: Callable[[str], Any], text: str, where: str) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            error = ValueError(f"should be one of {', '.join(kind)}")
        raise FormatError(f"{where} {error}.") from None


def _object(kind: Any, plain: Any, where: str) -> Any:
    given = _expect(dict, plain, where)
    made = {}
    for name, (inner, needed) in _fields_of(kind).items():
        if name in given:
            made[name] = _made(inner, given[name], f"{where}.{name}")
        elif needed:
            raise FormatError(f"{where} has no {name}.")
    # A typed dict is a document that others may add to: they find again what they wrote.
    return {**given, **made} if is_typeddict(kind) else kind(**made)


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether it must be given."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        optional = set(kind.__optional_keys__)
    elif is_dataclass(kind):
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
    if not -LARGEST <= plain <= LARGEST:  # NaN is not either
        raise FormatError(f"{where} is no finite number.")
    return float(plain)


def _shown(plain: Any) -> str:
    if isinstance(plain, dict | list):
        return "an object" if isinstance(plain, dict) else "a list"
    return f"{plain!r:.40}"


_WORDS = {
    int: "a whole number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
