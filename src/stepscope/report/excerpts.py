"""The user's own lines around a place, as many as help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stepscope.model.details import Details
from stepscope.model.finding import Location
from stepscope.model.source import Source

__all__ = ["Excerpt", "Excerpts", "SourceLine"]

_AROUND = 3
_CHARS = 240


class SourceLine(NamedTuple):
    number: int
    text: str
    hot: bool
    share: float | None  # of its phase, where stacks were sampled


class Excerpt(NamedTuple):
    file: str
    lines: tuple[SourceLine, ...]
    changed: bool  # since the run


class Excerpts:
    """Reads each place once."""

    def __init__(self, source: Source, details: Details | None) -> None:
        self._source = source
        self._shares = _shares(details)
        self._made: dict[tuple[str, int], Excerpt | None] = {}

    def of(self, location: Location) -> Excerpt | None:
        """None: the place is not known, or its file cannot be read."""
        if location.file is None or location.line is None or location.line < 1:
            return None
        key = (location.file, location.line)
        if key not in self._made:
            self._made[key] = self._make(*key)
        return self._made[key]

    def _make(self, file: str, line: int) -> Excerpt | None:
        first = max(1, line - _AROUND)
        found = self._source(file, first, line + _AROUND)
        if len(found.lines) <= line - first:  # the file is shorter now
            return None
        lines = tuple(_lines(file, first, found.lines, line, self._shares))
        return Excerpt(file, lines, found.changed)


def _lines(
    file: str, first: int, texts: Sequence[str], hot: int, shares: Mapping[tuple[str, int], float]
) -> Iterable[SourceLine]:
    kept = [text.rstrip()[:_CHARS].expandtabs(4) for text in texts]
    indents = [len(text) - len(text.lstrip()) for text in kept if text]
    shift = min(indents, default=0)
    for number, text in enumerate(kept, first):
        yield SourceLine(number, text[shift:], number == hot, shares.get((file, number)))


def _shares(details: Details | None) -> dict[tuple[str, int], float]:
    """The largest share of each line, over the phases."""
    shares: dict[tuple[str, int], float] = {}
    for stacks in details.stacks if details is not None else ():
        for line in stacks.lines:
            if line.location.file is not None and line.location.line is not None:
                key = (line.location.file, line.location.line)
                shares[key] = max(line.share, shares.get(key, 0.0))
    return shares
