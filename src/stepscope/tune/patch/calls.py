"""The call that a trial's line speaks of."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from stepscope.model.change import Applied
from stepscope.tune.patch.source import Refuse, Source

__all__ = ["calls_at"]


def calls_at(
    source: Source, applied: Applied, fits: Callable[[cst.Call], bool], wanted: str
) -> list[cst.Call]:
    """The fitting calls on the line: several only where they stand side by side on it.

    wanted: what is looked for, in words. Refuse: there is none.
    """
    line = applied.line or 0
    on_line = [call for call in source.all(cst.Call) if _covers(source, call, line) and fits(call)]
    # Python tells the line where the call begins or that of the method's name, but older frames
    # that of an argument too.
    starting = [call for call in on_line if line in _starts(source, call)]
    found = _innermost(source, starting or on_line)
    if not found:
        raise Refuse(f"line {line} of {source.path.name} has no {wanted}")
    return found


def _covers(source: Source, node: cst.CSTNode, line: int) -> bool:
    first, last = source.lines(node)
    return first <= line <= last


def _starts(source: Source, call: cst.Call) -> tuple[int, int]:
    return source.lines(call)[0], source.lines(call.func)[1]


def _innermost(source: Source, calls: list[cst.Call]) -> list[cst.Call]:
    outer = {around for call in calls for around in source.around(call)}
    return [call for call in calls if call not in outer]
