"""Which loader an iterator belongs to, and what training waited for each."""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any

from stepscope.analyze.spans import INPUT_ITER, SpanRow

__all__ = ["LoaderMarks", "parsed"]

_ITERATORS = 1000  # whose loader is remembered
_MARKS = 64  # of one iterator


class LoaderMarks:
    """Settings of loaders as their marks told them, by iterator.

    An iterator is known by its address, which another one may have had before it and may get after
    it: the time of the mark tells them apart.
    """

    def __init__(self) -> None:
        self._marks: dict[int, list[tuple[int, str]]] = {}  # iterator → (time, settings), in order

    def update(self, iterator: int, time_ns: int, text: str) -> None:
        marks = self._marks.setdefault(iterator, [])
        if marks and marks[-1][1] == text:
            return
        marks.append((time_ns, text))
        del marks[:-_MARKS]
        if len(self._marks) > _ITERATORS:
            del self._marks[next(iter(self._marks))]

    def of(self, row: SpanRow) -> str:
        """The settings behind an input span, as text; "": not known."""
        marks = self._marks.get(row[3])
        if not marks:
            return ""
        if len(marks) == 1:
            return marks[0][1]
        # The mark of an iterator follows its input.iter and comes before its input.next.
        behind = bisect_right(marks, row[1] if row[2] == INPUT_ITER else row[0], key=_time)
        place = behind if row[2] == INPUT_ITER else behind - 1
        return marks[min(max(place, 0), len(marks) - 1)][1]


def _time(mark: tuple[int, str]) -> int:
    return mark[0]


def parsed(text: str) -> dict[str, Any]:
    """The settings of a mark; {} for what cannot be read."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
