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
from itertools import cycle
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
_Decoder = Callable[[Any], Any]
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
        return _decoder(kind)(plain)
    except _MismatchError as error:
        raise FormatError(f"{where}{''.join(reversed(error.path))} {error}.") from None
    except RecursionError as error:
        raise FormatError(f"{where} is nested too deeply.") from error


class _MismatchError(Exception):
    """What is wrong; every container that it leaves adds its part of the way, from the inside."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []


@cache
def _decoder(kind: Any) -> _Decoder:
    """The function that makes a value of that type. Cached: a flame has thousands of nodes."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _annotated(*get_args(kind))
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        decode = _decoder(inner)
        return lambda plain: None if plain is None else decode(plain)
    if origin is tuple:
        return _tuple_of(get_args(kind))
    if origin is list:
        of_all = _tuple_of((*get_args(kind), Ellipsis))
        return lambda plain: list(of_all(plain))
    if origin is not None:  # a Mapping[str, …]
        return _mapping_of(get_args(kind)[1])
    if kind is Any:
        return lambda plain: plain
    if kind in _SCALARS:
        return _limited(_scalar(kind), _MODERATE) if kind in (int, float) else _scalar(kind)
    if kind is BottleneckType:
        return _member(BottleneckType.register, "a lower-case name")
    if issubclass(kind, StrEnum):
        return _member(kind, f"one of {', '.join(kind)}")
    return _object(kind)


def _annotated(kind: Any, *limits: Any) -> _Decoder:
    if isinstance(limits[0], Shaped):
        return _decoder(limits[0].kind)
    return _limited(_scalar(kind) if kind in _SCALARS else _decoder(kind), limits)


def _limited(decode: _Decoder, limits: Collection[Any]) -> _Decoder:
    def limited(plain: Any) -> Any:
        value = decode(plain)
        for limit in limits:
            problem = limit.problem(value)
            if problem:
                raise _MismatchError(problem)
        return value

    return limited


def _scalar(kind: type) -> _Decoder:
    return _number if kind is float else lambda plain: _expect(kind, plain)


def _tuple_of(kinds: tuple[Any, ...]) -> _Decoder:
    any_length = len(kinds) == 2 and kinds[1] is Ellipsis
    decoders = [_decoder(kind) for kind in (kinds[:1] if any_length else kinds)]

    def made(plain: Any) -> tuple[Any, ...]:
        listed, parts = _expect(list, plain), []
        if not any_length and len(listed) != len(decoders):
            raise _MismatchError(f"should have {len(decoders)} parts, and has {len(listed)}")
        try:
            for decode, one in zip(cycle(decoders), listed):
                parts.append(decode(one))
        except _MismatchError as error:
            error.path.append(f"[{len(parts)}]")
            raise
        return tuple(parts)

    return made


def _mapping_of(kind: Any) -> _Decoder:
    decode = _decoder(kind)

    def made(plain: Any) -> dict[str, Any]:
        name, parts = "", {}
        try:
            for name, one in _expect(dict, plain).items():
                parts[name] = decode(one)
        except _MismatchError as error:
            error.path.append(f".{name:.60}")
            raise
        return parts

    return made


def _member(kind: Callable[[str], Any], words: str) -> _Decoder:
    def made(plain: Any) -> Any:
        try:
            return kind(_expect(str, plain))
        except ValueError:
            raise _MismatchError(f"should be {words}") from None

    return made


def _object(kind: Any) -> _Decoder:
    def made(plain: Any) -> Any:
        given = _expect(dict, plain)
        known, needed = _fields_of(kind)
        if missing := needed - given.keys():
            raise _MismatchError(f"has no {next(name for name, _ in known if name in missing)}")
        name, parts = "", {}
        try:
            for name, decode in known:
                if name in given:
                    parts[name] = decode(given[name])
        except _MismatchError as error:
            error.path.append(f".{name}")
            raise
        # A typed dict is a document that others may add to: they find again what they wrote.
        return {**given, **parts} if is_typeddict(kind) else kind(**parts)

    return made


@cache
def _fields_of(kind: Any) -> tuple[list[tuple[str, _Decoder]], set[str]]:
    """The decoder of each field, and the names of those that must be given. Made with the first
    value, not with the decoder of the class, because a class may refer to itself."""
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
    return [(name, _decoder(hint)) for name, hint in hints.items()], hints.keys() - optional


def _expect(kind: type, plain: Any) -> Any:
    if isinstance(plain, kind) and (kind is bool or not isinstance(plain, bool)):
        return plain
    raise _MismatchError(f"should be {_WORDS[kind]}, and is {_shown(plain)}")


def _number(plain: Any) -> float:
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise _MismatchError(f"should be a number, and is {_shown(plain)}")
    if not -LARGEST <= plain <= LARGEST:  # NaN is not either
        raise _MismatchError("is no finite number")
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
