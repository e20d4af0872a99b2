"""Where steps end. Fed with the spans of the training thread in the order in which they ended."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeAlias

from stepscope.analyze.iterations import in_order, iterations
from stepscope.analyze.spans import (
    BACKWARD,
    FAILED,
    FORWARD,
    GC,
    INPUT_ITER,
    INPUT_NEXT,
    OPTIMIZER,
    OPTIMIZER_SCALE,
    TRANSFER,
    SpanRow,
    end_clock,
)

__all__ = ["Boundary", "FoundBy", "Steps", "loop_start", "steps_by"]


_start, _code = itemgetter(0), itemgetter(2)


class FoundBy(enum.IntEnum):
    """By which spans steps are told apart; a stronger sign replaces a weaker one."""

    NOTHING = 0
    FORWARD = 1
    LOADER = 2
    BACKWARD = 3
    OPTIMIZER = 4


class Boundary(NamedTuple):
    """The end of a step. `spans`: how many of those that were given belong to it."""

    end_ns: int
    cpu_ns: int  # the thread's CPU clock there; -1: not read
    spans: int
    skipped: bool = False


class Steps(Protocol):
    """Finds the ends of steps. `trigger`: the code of the spans it has to be asked about."""

    trigger: int

    def feed(self, rows: Sequence[SpanRow], start_ns: int) -> Sequence[Boundary]:
        """Ends of the step that began at `start_ns`, and of one after it, which the last span
        proves over. The spans of the second are counted from the end of the first."""
        ...

    def last(self, rows: Sequence[SpanRow], start_ns: int) -> Boundary | None:
        """Where the step would end if nothing came after these spans; None: it is not over."""
        ...

    def shift(self, count: int) -> None:
        """The first `count` spans were taken away."""
        ...


def steps_by(found_by: FoundBy) -> Steps:
    if found_by is FoundBy.LOADER:
        return _LoaderSteps()
    code = {FoundBy.OPTIMIZER: OPTIMIZER, FoundBy.BACKWARD: BACKWARD}.get(found_by, FORWARD)
    return _EndedSteps(code)


# A span that ends steps, its place in the rows, whether another of its kind is inside.
_Ended: TypeAlias = tuple[SpanRow, int, bool]


class _EndedSteps:
    """A step ends with an outermost span of one kind; for optimizers, with the last of a round."""

    def __init__(self, code: int) -> None:
        self.trigger = code
        self._round: list[_Ended] = []
        self._before: set[int] = set()  # optimizers of the round before
        self._scaler = False

    def feed(self, rows: Sequence[SpanRow], start_ns: int) -> Sequence[Boundary]:
        row = rows[-1]
        encloses = False
        while self._round and self._round[-1][0][0] >= row[0]:
            self._round.pop()
            encloses = True
        if row[7] & FAILED:
            return ()
        boundaries: Sequence[Boundary] = ()
        if self._round and not encloses and self._is_over(row, rows):
            boundaries = self._ends(row, rows, start_ns)
            in_last = self._round if len(boundaries) == 1 else self._round[-1:]
            self._before = {known[3] for known, _, _ in in_last}
            self._round.clear()
        self._round.append((row, len(rows) - 1, encloses))
        return boundaries

    def last(self, rows: Sequence[SpanRow], start_ns: int) -> Boundary | None:
        return self._end(self._round[-1], rows, start_ns) if self._round else None

    def _ends(self, row: SpanRow, rows: Sequence[SpanRow], start_ns: int) -> Sequence[Boundary]:
        """Of a round: one, but two where one optimizer takes over from another for several steps
        (layers that are trained one after the other): a, a, b, b."""
        end = self._end(self._round[-1], rows, start_ns)
        optimizers = [known[3] for known, _, _ in self._round]
        takes_over = (
            len(optimizers) > 1
            and optimizers[-1] == row[3]
            and optimizers[-2] in self._before
            and row[3] not in self._before
        )
        if not takes_over:
            return (end,)
        first = self._end(self._round[-2], rows, start_ns)
        return first, end._replace(spans=end.spans - first.spans)

    def _end(self, entry: _Ended, rows: Sequence[SpanRow], start_ns: int) -> Boundary:
        ending, at, _ = entry
        inner_start = ending[0]
        after = rows[at + 1 :]
        if after and min(map(_start, after)) <= inner_start:
            for place, row in enumerate(after, at + 1):
                if start_ns <= row[0] <= inner_start:  # it is inside a backward: ends with it
                    ending, at = row, place
        return Boundary(ending[1], end_clock(ending[5], ending[6]), at + 1, self._skipped(rows))

    def shift(self, count: int) -> None:
        self._round = [(row, at - count, inside) for row, at, inside in self._round]

    def _is_over(self, row: SpanRow, rows: Sequence[SpanRow]) -> bool:
        """Whether this span begins another round of optimizers."""
        if self.trigger != OPTIMIZER or any(row[3] == known[3] for known, _, _ in self._round):
            return True
        return _trains_on_new_batch(rows[self._round[-1][1] + 1 :])

    def _skipped(self, rows: Sequence[SpanRow]) -> bool:
        """A GradScaler ran and no optimizer's step was called inside its own."""
        if self.trigger != OPTIMIZER or any(inside for _, _, inside in self._round):
            return False
        self._scaler = self._scaler or OPTIMIZER_SCALE in map(_code, rows)
        return self._scaler


def _trains_on_new_batch(rows: Sequence[SpanRow]) -> bool:
    fetched = False
    for row in rows:
        if row[2] == INPUT_NEXT:
            fetched = not row[7] & FAILED
        elif fetched and (row[2] == BACKWARD or (row[2] == FORWARD and row[4] > 0)):
            return True
    return False


_WORK = frozenset((FORWARD, BACKWARD, OPTIMIZER))


class _LoaderSteps:
    """Each batch is a step: from where it is asked for to where the next one is.

    Batches of several loaders that are fetched one after the other, as by zip, are one step.
    """

    trigger = INPUT_NEXT

    def __init__(self) -> None:
        self._fetched: SpanRow | None = None
        self._at = 0
        self._iterators: set[int] = set()
        self._exhausted = False

    def feed(self, rows: Sequence[SpanRow], start_ns: int) -> Sequence[Boundary]:
        row = rows[-1]
        fetched = self._fetched
        if fetched is not None and row[0] <= fetched[0]:
            self._take(row, rows)  # a loader inside a loader
            return ()
        if row[7] & FAILED:
            self._exhausted = True
            return ()
        boundaries: Sequence[Boundary] = ()
        if fetched is not None and self._is_over(row, rows):
            boundaries = (self._before(row, rows),)
            self._iterators.clear()
        self._exhausted = False
        self._take(row, rows)
        return boundaries

    def last(self, rows: Sequence[SpanRow], start_ns: int) -> Boundary | None:
        if self._fetched is None:
            return None
        at = self._at
        for place in range(self._at + 1, len(rows)):
            if rows[place][2] in _WORK or rows[place][2] in (INPUT_NEXT, TRANSFER):
                at = place
        return Boundary(rows[at][1], -1, at + 1)

    def shift(self, count: int) -> None:
        self._at -= count

    def _take(self, row: SpanRow, rows: Sequence[SpanRow]) -> None:
        self._fetched, self._at = row, len(rows) - 1
        self._iterators.add(row[3])

    def _is_over(self, row: SpanRow, rows: Sequence[SpanRow]) -> bool:
        if self._exhausted or row[3] in self._iterators:
            return True
        return any(r[2] in _WORK and r[0] < row[0] for r in rows[self._at + 1 :])

    def _before(self, row: SpanRow, rows: Sequence[SpanRow]) -> Boundary:
        """Just before this batch was asked for, or before its loader was started."""
        begin, place = row, len(rows) - 1
        fetched_ns = self._fetched[0] if self._fetched is not None else 0
        for back in range(len(rows) - 2, self._at, -1):
            other = rows[back]
            if other[0] >= begin[0]:
                place = back  # inside it
            elif other[2] == INPUT_ITER and other[0] > fetched_ns:  # not around the last batch
                begin, place = other, back
            elif other[2] != GC:
                break
        return Boundary(begin[0], begin[5], place)


def loop_start(rows: Sequence[SpanRow], found_by: FoundBy) -> int:
    """When the first activity began that leads to the first step, given the spans up to its end.

    Before it lie model building, warm-up calls, evaluation of the untrained model: start-up.
    """
    ordered = in_order(rows)
    if found_by is FoundBy.LOADER:
        return next(row[0] for row in ordered if row[2] in (INPUT_ITER, INPUT_NEXT))
    if found_by is FoundBy.FORWARD:
        return next(row[0] for row in ordered if row[2] == FORWARD)
    trained = [found.start_ns for found in iterations(ordered) if found.trained]
    return min(trained) if trained else _first_training_span(ordered)


def _first_training_span(ordered: Sequence[SpanRow]) -> int:
    """Without a loader: the last call of each module before the first backward."""
    last_calls: dict[int, int] = {}
    enclosing = None
    for row in ordered:
        if row[2] == FORWARD and row[4] > 0:
            last_calls[row[3]] = row[0]
        elif row[2] == BACKWARD:
            last_calls.setdefault(-1, row[0])
            break
        elif row[2] == OPTIMIZER and enclosing is None:
            enclosing = row[0]
    starts = [*last_calls.values(), *([enclosing] if enclosing is not None else [])]
    return min(starts) if starts else ordered[0][0]
