"""torch's raw memory timeline: `profile.export_memory_timeline("….raw.json.gz")`.

A list of [time in ns, action, bytes, category], the oldest first, of one device that the file does
not name. Bytes are signed; a new version of a tensor is two entries, one that takes its bytes from
the old category and one that gives them to the new. Numbers are those of
torch/profiler/_memory_profiler.py (Action, _CATEGORY_TO_INDEX).
"""

from __future__ import annotations

from typing import Any, Final

from stepscope.errors import FormatError
from stepscope.interop.checked import whole_number
from stepscope.model.allocations import CategoryChange, CategoryTimeline
from stepscope.model.memory import (
    ACTIVATION,
    GRADIENT,
    INPUT,
    OPTIMIZER_STATE,
    OTHER,
    PARAMETER,
    TEMPORARY,
)

__all__ = ["is_timeline", "timeline_of"]

_MAX_EVENTS: Final = 4_000_000
_PREEXISTING, _CREATE, _INCREMENT_VERSION, _DESTROY = 1, 2, 3, 4
# By number. Autograd's own (6) and what torch could not tell (7) are nothing of ours.
_CATEGORIES: Final = (
    PARAMETER,
    OPTIMIZER_STATE,
    INPUT,
    TEMPORARY,
    ACTIVATION,
    GRADIENT,
    OTHER,
    OTHER,
)
_DRAWN = "export_memory_timeline was given a name that does not end in .raw.json.gz"


def is_timeline(document: Any) -> bool:
    return isinstance(document, list)


def timeline_of(document: Any) -> CategoryTimeline:
    """FormatError: it is not what torch writes; it says where."""
    if len(document) > _MAX_EVENTS:
        raise FormatError(f"it has more than {_MAX_EVENTS:,} events.")
    if len(document) == 2 and all(isinstance(one, list) and len(one) != 4 for one in document):
        raise FormatError(f"it holds sums for a picture, not events: {_DRAWN}.")
    changes = []
    counts = [0] * (_DESTROY + 1)
    held: dict[str, int] = {}
    last_ns = -1
    for at, entry in enumerate(document):
        action, change = _change(entry, f"event {at:,}")
        if change.at_ns < last_ns:
            raise FormatError(f"event {at:,} is older than the one before it.")
        last_ns = change.at_ns
        held[change.category] = held.get(change.category, 0) + change.bytes
        if held[change.category] < 0:
            raise FormatError(f"event {at:,} frees more of its category than there is.")
        counts[action] += 1
        changes.append(change)
    made = counts[_PREEXISTING] + counts[_CREATE]
    return CategoryTimeline(tuple(changes), allocations=made, frees=counts[_DESTROY])


def _change(entry: Any, where: str) -> tuple[int, CategoryChange]:
    if not isinstance(entry, list) or len(entry) != 4:
        raise FormatError(f"{where} should be a list of time, action, bytes and category.")
    at_ns, action, size, category = (whole_number(part, where) for part in entry)
    if at_ns < -1:
        raise FormatError(f"{where} has a time below -1.")
    if not _PREEXISTING <= action <= _DESTROY:
        raise FormatError(f"{where} has action {action}, and there are 1 to {_DESTROY}.")
    if not 0 <= category < len(_CATEGORIES):
        raise FormatError(
            f"{where} has category {category}, and there are 0 to {len(_CATEGORIES) - 1}."
        )
    if (action == _DESTROY and size > 0) or (action < _INCREMENT_VERSION and size < 0):
        raise FormatError(f"{where} makes memory of a negative size, or frees one.")
    return action, CategoryChange(at_ns, _CATEGORIES[category], size)
