"""What each line holds from window to window → which of them leak, and what the others do.

Bytes are exact (the ledger's) and taken at the same point of each step, so a leak shows as a
straight line, and a few KiB are enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from stepscope.analyze.growth import Growth, judge_growth
from stepscope.analyze.memory_look import UNKNOWN, WORKSPACE
from stepscope.model.memory import CATEGORIES, INPUT, OPTIMIZER_STATE, OTHER, PARAMETER
from stepscope.stats.quantiles import median

__all__ = ["FLOOR_BYTES", "Examined", "Grown", "Line", "evenly", "examined_of", "judge_line"]

FLOOR_BYTES: Final = 16 * 1024  # less growth than this over the run is nothing to speak of
POINTS: Final = 64  # of a line's growth that are looked at
FREED: Final = 0.5  # of what a line held, that a collection frees: then it was garbage
LIKE_INPUT: Final = 0.25  # how far two growths may differ that have one cause
LEAST_GROWTH: Final = 1.05
_INPUT_LABEL: Final = CATEGORIES.index(INPUT) + 1
_MEANT_TO_STAY: Final = {CATEGORIES.index(one) + 1 for one in (PARAMETER, OPTIMIZER_STATE)}


class Examined(NamedTuple):
    """What asking the program gave (collect/holders.py)."""

    before_bytes: int
    freed_bytes: int
    classes: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()

    @property
    def kept_share(self) -> float | None:
        """Of what the line held, what a collection left; None: none was made."""
        if not self.before_bytes:
            return None
        return min(1.0, max(0.0, 1.0 - self.freed_bytes / self.before_bytes))


class Line:
    """What one stack held: `update` when that changes, for each label by itself.

    Parameters and what an optimizer keeps are not counted: they are there to stay.
    """

    def __init__(self) -> None:
        self._by_label: dict[int, tuple[int, int]] = {}
        self.was_input = False
        self.purpose = OTHER  # what blocks of it were last labelled as
        self.steps: list[int] = []
        self.bytes: list[int] = []
        self.blocks: list[int] = []

    def update(self, step: int, label: int, held: tuple[int, int]) -> None:
        if UNKNOWN < label < WORKSPACE and held[1]:
            self.purpose = CATEGORIES[label - 1]
        if label in _MEANT_TO_STAY:
            return
        self._by_label[label] = held
        self.was_input = self.was_input or label == _INPUT_LABEL
        size = sum(one for one, _ in self._by_label.values())
        number = sum(one for _, one in self._by_label.values())
        if self.steps and self.steps[-1] == step:
            self.bytes[-1], self.blocks[-1] = size, number
            return
        self.steps.append(step)
        self.bytes.append(size)
        self.blocks.append(number)

    def at(self, step: int) -> int:
        place = bisect_right(self.steps, step) - 1
        return self.bytes[place] if place >= 0 else 0

    def blocks_at(self, step: int) -> int:
        place = bisect_right(self.steps, step) - 1
        return self.blocks[place] if place >= 0 else 0

    @classmethod
    def together(cls, lines: Sequence[Line]) -> Line:
        """Of several stacks that are one to a reader."""
        if len(lines) == 1:
            return lines[0]
        made = cls()
        made.steps = sorted({step for line in lines for step in line.steps})
        made.bytes = [sum(line.at(step) for line in lines) for step in made.steps]
        made.blocks = [sum(line.blocks_at(step) for line in lines) for step in made.steps]
        made.was_input = any(line.was_input for line in lines)
        for line in lines:
            for label, (size, number) in line._by_label.items():
                before = made._by_label.get(label, (0, 0))
                made._by_label[label] = (before[0] + size, before[1] + number)
        return made

    @property
    def category(self) -> str:
        """Of most of its bytes."""
        label = max(self._by_label, key=lambda one: self._by_label[one][0], default=UNKNOWN)
        return CATEGORIES[label - 1] if UNKNOWN < label < WORKSPACE else OTHER


def evenly(windows: Sequence[int]) -> list[int]:
    """At most POINTS of these steps, about as far from one to the next: windows are close at the
    beginning of a run and far apart later."""
    if len(windows) < 2:
        return list(windows)
    first, last = windows[0], windows[-1]
    found: list[int] = []
    for part in range(POINTS + 1):
        wanted = first + (last - first) * part / POINTS
        at = bisect_right(windows, wanted)
        near = min(windows[max(0, at - 1) : at + 1], key=lambda step: abs(step - wanted))
        if not found or near > found[-1]:
            found.append(near)
    return found


class Grown(NamedTuple):
    verdict: str  # of model/memory.py, Growing
    why: str
    bytes_per_step: float
    first_step: int
    last_step: int
    steady_share: float  # of the windows, those in which it grew


def judge_line(
    line: Line,
    windows: Sequence[int],
    transients: Mapping[int, int],
    examined: Examined | None = None,
) -> Grown | None:
    """None: it does not grow. `windows`: the steps at whose ends was counted; `transients`: bytes
    that came and went within a step, which follow the size of its batch."""
    windows = evenly(windows)
    points = [(float(step), float(line.at(step))) for step in windows]
    growth = judge_growth(points, FLOOR_BYTES)
    garbage = _garbage(line, windows, growth, examined)
    if garbage is not None:
        return garbage
    if growth.slope is None or growth.slope <= 0 or growth.leaks is None:
        return None
    if (growth.grown_bytes or 0.0) < FLOOR_BYTES:
        return None
    verdict, why = _verdict(line, windows, transients, growth, examined)
    return Grown(verdict, why, growth.slope, windows[0], windows[-1], _steady_share(growth))


def _verdict(
    line: Line,
    windows: Sequence[int],
    transients: Mapping[int, int],
    growth: Growth,
    examined: Examined | None,
) -> tuple[str, str]:
    if not growth.leaks:
        return "cache" if _plateaus(line, windows) else "slowing", growth.why
    if _follows_input(line, windows, transients):
        why = "It holds as many blocks as before, larger as the batches became larger."
        return "input shape", why
    why = growth.why
    if examined is not None:
        why += " A collection of garbage freed none of it."
    return "leak", why


def _garbage(
    line: Line, windows: Sequence[int], growth: Growth, examined: Examined | None
) -> Grown | None:
    if examined is None or examined.freed_bytes < FREED * examined.before_bytes:
        return None
    if examined.freed_bytes < FLOOR_BYTES:
        return None
    rates = [
        (line.at(after) - line.at(before)) / (after - before)
        for before, after in pairwise(windows)
        if line.at(after) > line.at(before)
    ]
    rate = median(rates) or 0.0
    why = "Objects that refer to each other hold it until Python collects garbage."
    share = _steady_share(growth)
    return Grown("cycle garbage", why, rate, windows[0], windows[-1], share)


def _steady_share(growth: Growth) -> float:
    return growth.growing_windows / growth.windows if growth.windows else 0.0


def _plateaus(line: Line, windows: Sequence[int]) -> bool:
    """As much as a quarter of the windows ago."""
    quarter = max(1, len(windows) // 4)
    return line.at(windows[-1]) <= line.at(windows[-1 - quarter])


def _follows_input(line: Line, windows: Sequence[int], transients: Mapping[int, int]) -> bool:
    known = [step for step in windows if step in transients]
    if len(known) < 2:
        return False
    first, last = known[len(known) // 4], known[-1]
    if line.blocks_at(first) != line.blocks_at(last) or not line.at(first):
        return False
    if line.was_input:
        return True
    held, came = line.at(last) / line.at(first), transients[last] / max(1, transients[first])
    return came >= LEAST_GROWTH and abs(held / came - 1.0) <= LIKE_INPUT


def examined_of(
    garbage: Iterable[Mapping[str, Any]], holders: Iterable[Mapping[str, Any]]
) -> Examined | None:
    """From what the collector told of a line's stacks; None: it told nothing. Of hostile files only
    what has the right shape."""
    garbage, holders = list(garbage), list(holders)
    if not garbage and not holders:
        return None
    classes = [one for told in garbage for one in _texts(told.get("classes"))]
    held_by = [chain for chain in (_texts(told.get("held_by")) for told in holders) if chain]
    return Examined(
        sum(_whole(told.get("before")) for told in garbage),
        sum(_whole(told.get("freed")) for told in garbage),
        tuple(dict.fromkeys(classes)),
        max(held_by, key=len, default=()),
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one)[:200] for one in value[:8]) if isinstance(value, list) else ()
