"""What the batches of each loader iteration met: training, evaluation or neither."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from stepscope.analyze.spans import (
    BACKWARD,
    FAILED,
    FORWARD,
    INPUT_ITER,
    INPUT_NEXT,
    OPTIMIZER,
    SpanRow,
)

__all__ = ["Iteration", "evaluation_regions", "in_order", "iterations"]


class Iteration:
    """One pass over a loader, or the part of it that lies in these spans."""

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self.start_ns, self.end_ns = start_ns, end_ns
        self.evaluated = 0  # batches that met a forward without gradients, and nothing else
        self.graded = False  # a batch met a forward with gradients, a backward or an optimizer
        self.trained = False  # a batch met a backward or an optimizer

    @property
    def is_evaluation(self) -> bool:
        return self.evaluated > 0 and not self.graded


_start = itemgetter(0)


def in_order(rows: Iterable[SpanRow]) -> list[SpanRow]:
    """Spans by their start, each before those inside it. Given: the order in which they ended."""
    ordered = list(rows)
    ordered.reverse()  # a parent ended last: reversed and sorted stably it stands first
    ordered.sort(key=_start)
    return ordered


def evaluation_regions(ordered: Iterable[SpanRow]) -> list[tuple[int, int]]:
    """Where loader iterations evaluate: from the start of each to its end, overlaps joined."""
    regions: list[tuple[int, int]] = []
    for found in sorted(
        (i.start_ns, i.end_ns) for i in iterations(ordered) if i.is_evaluation
    ):  # fmt: skip
        if regions and found[0] <= regions[-1][1]:
            regions[-1] = (regions[-1][0], max(regions[-1][1], found[1]))
        else:
            regions.append(found)
    return regions


def iterations(ordered: Iterable[SpanRow]) -> list[Iteration]:
    """Every loader iteration in these spans (given by their start) and what its batches met."""
    walk = _Walk()
    inside_until = -1
    for row in ordered:
        start_ns, end_ns, code = row[0], row[1], row[2]
        if start_ns < inside_until or code not in _MEANINGFUL:
            continue
        if code != OPTIMIZER:  # what is inside an optimizer step (a closure) counts by itself
            inside_until = end_ns
        walk.meet(row)
    return walk.all


_MEANINGFUL = frozenset((FORWARD, BACKWARD, OPTIMIZER, INPUT_ITER, INPUT_NEXT))


class _Walk:
    """Goes through the spans in time and tells each batch what it met.

    waiting: iterations whose batch is the newest; several when loaders are zipped.
    aside: iterations whose batch met nothing before another loader was started inside.
    """

    def __init__(self) -> None:
        self.all: list[Iteration] = []
        self._current: dict[int, Iteration] = {}
        self._waiting: dict[int, bool] = {}  # iterator → whether its batch was evaluated
        self._aside: set[int] = set()

    def meet(self, row: SpanRow) -> None:
        code, iterator = row[2], row[3]
        if code == INPUT_ITER:
            self._started(iterator, row)
        elif code == INPUT_NEXT:
            self._fetched(iterator, row)
        elif code == FORWARD and row[4] <= 0:
            self._evaluated(row[1])
        else:
            self._graded(trained=code != FORWARD)

    def _begin(self, iterator: int, start_ns: int, end_ns: int) -> Iteration:
        found = Iteration(start_ns, end_ns)
        self._current[iterator] = found
        self.all.append(found)
        return found

    def _started(self, iterator: int, row: SpanRow) -> None:
        self._aside.update(other for other, evaluated in self._waiting.items() if not evaluated)
        self._waiting.clear()
        self._aside.discard(iterator)
        self._begin(iterator, row[0], row[1])

    def _fetched(self, iterator: int, row: SpanRow) -> None:
        current = self._current.get(iterator) or self._begin(iterator, row[0], row[1])
        self._aside.discard(iterator)
        if row[7] & FAILED:  # exhausted: it ends here
            current.end_ns = max(current.end_ns, row[1])
            self._waiting.clear()
            del self._current[iterator]
            return
        for other in [other for other, evaluated in self._waiting.items() if evaluated]:
            del self._waiting[other]  # its batch is used up
        self._waiting[iterator] = False

    def _evaluated(self, end_ns: int) -> None:
        for iterator, evaluated in self._waiting.items():
            current = self._current[iterator]
            current.end_ns = end_ns
            if not evaluated:
                current.evaluated += 1
                self._waiting[iterator] = True

    def _graded(self, trained: bool) -> None:
        whose = self._aside or self._waiting
        for iterator in list(whose):
            current = self._current.get(iterator)
            if current is None:
                continue
            left_early = (
                current.evaluated > 1 and not current.graded and self._waiting.get(iterator, False)
            )  # evaluation left by `break`: its last batch is not the one that is trained on
            if not left_early:
                current.graded = True
                current.trained = current.trained or trained
