"""Parts of a foreign document, each what it should be or refused in words."""

from __future__ import annotations

from typing import Any

from stepscope.errors import FormatError

__all__ = ["entries", "field", "size_of", "text_of", "whole_number"]

_MOST = 1 << 64


def field(owner: Any, name: str, where: str) -> Any:
    """FormatError: there is none."""
    if not isinstance(owner, dict):
        raise FormatError(f"{where} should be an object.")
    if name not in owner:
        raise FormatError(f"{where} has no {name}.")
    return owner[name]


def entries(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"{where} should be a list.")
    return value


def whole_number(value: Any, where: str) -> int:
    if type(value) is not int or not -_MOST < value < _MOST:
        raise FormatError(f"{where} should be a whole number of at most 64 bits.")
    return value


def size_of(value: Any, where: str) -> int:
    """Bytes, an address or a time: never below 0."""
    number = whole_number(value, where)
    if number < 0:
        raise FormatError(f"{where} is below 0.")
    return number


def text_of(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where} should be text.")
    return value
