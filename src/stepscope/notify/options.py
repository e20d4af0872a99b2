"""The settings of a sink: a [[sink]] table, read key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.errors import UsageError
from stepscope.notify.secrets import resolve

__all__ = ["Options"]

_REQUIRED: Any = object()
_HUGE = 1e15


class Options:
    """Each getter gives a checked value or raises UsageError; `done` complains of keys that none
    asked for.

    >>> options = Options({"url": "http://localhost:9", "timeout_s": 3}, "webhook")
    >>> options.text("url"), options.number("timeout_s", 10.0, least=0.1)
    ('http://localhost:9', 3.0)
    >>> options.done()
    """

    def __init__(self, table: Mapping[str, Any], type: str) -> None:
        self._table, self._type = table, type
        self._known: list[str] = []

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """As it stands there: without secrets, unless the user wrote them."""
        return self._without_nul(key, str(self._value(key, default, str, "a text")))

    def secret(self, key: str, default: str = _REQUIRED) -> str:
        """With $NAME and ${NAME} from the environment. Not to be shown."""
        return resolve(self.text(key, default), self.where(key))

    def choice(self, key: str, default: str, among: Sequence[str]) -> str:
        value = self.text(key, default)
        if value not in among:
            raise UsageError(
                f"{self.where(key)} is {value!r}: it can be {' or '.join(map(repr, among))}."
            )
        return value

    def number(
        self, key: str, default: float = _REQUIRED, least: float = 0.0, most: float = _HUGE
    ) -> float:
        value = self._value(key, default, (int, float), "a number")
        if isinstance(value, bool) or not least <= value <= most:  # NaN is neither
            span = f"from {least:g} to {most:g}" if most < _HUGE else f"of at least {least:g}"
            raise UsageError(f"{self.where(key)} is {value!r}: it has to be a number {span}.")
        return float(value)

    def whole(self, key: str, default: int = _REQUIRED, least: int = 0, most: int = 1 << 53) -> int:
        value = self.number(key, default, least, most)
        if value != int(value):
            raise UsageError(f"{self.where(key)} is {value:g}: it has to be a whole number.")
        return int(value)

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._value(key, default, bool, "true or false"))

    def texts(self, key: str, default: Sequence[str] = _REQUIRED) -> tuple[str, ...]:
        value = self._value(key, default, (list, tuple), "a list of texts")
        if not all(isinstance(one, str) for one in value):
            raise UsageError(f"{self.where(key)} has to be a list of texts.")
        return tuple(self._without_nul(key, one) for one in value)

    def table(self, key: str) -> dict[str, str]:
        """A table of texts; empty where there is none."""
        value = self._value(key, {}, dict, "a table of texts")
        if not all(isinstance(one, str) for one in value.values()):
            raise UsageError(f"{self.where(key)} has to be a table of texts.")
        return dict(value)

    def where(self, key: str) -> str:
        """How messages call a setting."""
        return f"{key} of the {self._type} sink"

    def done(self) -> None:
        """UsageError: there are keys that the sink does not have."""
        unknown = sorted(set(self._table) - set(self._known))
        if unknown:
            raise UsageError(
                f"The {self._type} sink has no setting {', '.join(map(repr, unknown))}: there are"
                f" {', '.join(self._known)}."
            )

    def _without_nul(self, key: str, text: str) -> str:
        """No path, address or argument of a command can hold one."""
        if "\0" in text:
            raise UsageError(f"{self.where(key)} has a NUL character in it.")
        return text

    def _value(self, key: str, default: Any, kind: Any, what: str) -> Any:
        if key not in self._known:
            self._known.append(key)
        if key not in self._table:
            if default is _REQUIRED:
                raise UsageError(f"The {self._type} sink needs {key} ({what}).")
            return default
        value = self._table[key]
        if not isinstance(value, kind):
            raise UsageError(f"{self.where(key)} has to be {what}.")
        return value
