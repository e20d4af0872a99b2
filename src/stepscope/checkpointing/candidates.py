"""What recomputing a segment would save and cost, from the profiled step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from stepscope.checkpointing.pieces import Piece, Profiled, pieces_of
from stepscope.model.checkpoint_plan import ALL, CHEAP, Segment

__all__ = ["Candidate", "Overheads", "Rerun", "candidates_of", "disjoint"]

LEAST_SHARE: Final = 0.001  # of the peak: what saves less is not worth a choice


class Overheads(NamedTuple):
    """What torch's checkpointing itself takes, measured here."""

    call_ms: float  # a segment: forward and recomputation
    call_bytes: int  # it keeps for a segment: the state of the random numbers
    operator_ms: float  # an operator in a segment that keeps some results


class Rerun(NamedTuple):
    """While a segment is recomputed, just before its backward."""

    mark: int
    more_bytes: int  # live then, beyond what is live there when nothing is recomputed


class Candidate(NamedTuple):
    segment: Segment
    saved_bytes: int  # a call
    recompute_ms: float  # a step
    absent: tuple[range, ...]  # windows in which its saved bytes are not there
    reruns: tuple[Rerun, ...]
    calls: tuple[range, ...]  # it covers: two candidates that share one cannot both be chosen

    @property
    def size(self) -> int:
        """How many calls it covers."""
        return sum(map(len, self.calls))


def disjoint(candidates: Sequence[Candidate]) -> list[int]:
    """Their places: each is taken that shares no call with one that was taken before it."""
    taken: set[int] = set()
    chosen = []
    for at, one in enumerate(candidates):
        calls = {call for calls in one.calls for call in calls}
        if not calls & taken:
            chosen.append(at)
            taken |= calls
    return chosen


def candidates_of(profiled: Profiled, overheads: Overheads) -> list[Candidate]:
    """In the order of forward, larger before smaller. Of those that run the same operators the one
    that saves most stands for all."""
    uses = _Uses(profiled)
    least = LEAST_SHARE * profiled.windows.peak_bytes
    best: dict[tuple[tuple[range, ...], str], Candidate] = {}
    for segment, pieces in pieces_of(profiled).items():
        same = tuple(piece.operators for piece in pieces)
        for one in _both(segment, pieces, uses, overheads):
            key = (same, one.segment.recompute)
            if one.saved_bytes > least and (
                key not in best or one.saved_bytes > best[key].saved_bytes
            ):
                best[key] = one
    found = [
        one
        for (same, recompute), one in best.items()
        if recompute == ALL or _is_quicker(one, best.get((same, ALL)))
    ]
    return sorted(found, key=lambda one: (one.calls[0].start, -len(one.calls[0])))


def _is_quicker(cheap: Candidate, full: Candidate | None) -> bool:
    return full is None or cheap.recompute_ms < full.recompute_ms


def _both(
    segment: Segment, pieces: list[Piece], uses: _Uses, overheads: Overheads
) -> Iterator[Candidate]:
    """Everything recomputed, and only what is cheap."""
    saved = [uses.saved_bytes(piece) for piece in pieces]
    own_bytes, own_ms = overheads.call_bytes, len(pieces) * overheads.call_ms
    full = Candidate(
        segment,
        min(one.of_all for one in saved) - own_bytes,
        sum(uses.recompute_ms(piece) for piece in pieces) + own_ms,
        tuple(range(piece.end + 1, piece.backward + 1) for piece in pieces),
        tuple(
            Rerun(piece.backward, uses.growth_bytes(piece) - one.of_all + own_bytes)
            for piece, one in zip(pieces, saved, strict=True)
        ),
        tuple(piece.calls for piece in pieces),
    )
    yield full
    more = (
        Rerun(rerun.mark, rerun.more_bytes + one.extra)
        for rerun, one in zip(full.reruns, saved, strict=True)
    )
    watched_ms = overheads.operator_ms * sum(len(piece.operators) for piece in pieces)
    yield full._replace(
        segment=segment._replace(recompute=CHEAP),
        saved_bytes=min(one.of_cheap for one in saved) - own_bytes,
        recompute_ms=sum(uses.cheap_ms(piece) for piece in pieces) + own_ms + watched_ms,
        reruns=tuple(more),
    )


class _Saved(NamedTuple):
    """Bytes that need not be kept from the end of forward on. Below 0: more would be kept."""

    of_all: int
    of_cheap: int  # where the results of dear operators are kept
    extra: int  # of these, what nobody would keep otherwise: it is there while recomputing, too


class _Uses:
    """Who needs a storage: whether it goes when a piece does not keep it."""

    def __init__(self, profiled: Profiled) -> None:
        self._windows, self._saved = profiled.windows, profiled.saved
        self._first: dict[int, int] = {}  # storage → first and last entry that keeps it
        self._last: dict[int, int] = {}
        for at, kept in enumerate(self._saved.kept):
            self._first.setdefault(kept.storage, at)
            self._last[kept.storage] = at
        self._given: dict[int, int] = {}  # storage → last call that was given it
        self._returned: set[int] = set()  # by the model: the program holds them
        for call, reach in zip(self._saved.calls, self._saved.reaches, strict=True):
            self._given.update(dict.fromkeys(reach.inputs, call.number))
            if call.parent is None:
                self._returned.update(reach.outputs)
        operators = self._saved.operators
        ms = [self._saved.operator_ms(one) for one in operators]
        pairs = list(zip(operators, ms, strict=True))
        cheap_ms = [0.0 if op.is_dear or op.decided_bytes else one for op, one in pairs]
        deciding_ms = [one if op.decided_bytes else 0.0 for op, one in pairs]
        # Of all operators before one.
        self._ms = list(accumulate(ms, initial=0.0))
        self._cheap_ms = list(accumulate(cheap_ms, initial=0.0))
        self._deciding_ms = list(accumulate(deciding_ms, initial=0.0))
        self._decided_bytes = list(accumulate((op.decided_bytes for op in operators), initial=0))
        self._draws = list(accumulate((op.draws for op in operators), initial=0))

    def saved_bytes(self, piece: Piece) -> _Saved:
        gone = {
            kept.storage: kept.bytes
            for kept in self._saved.kept[piece.kept.start : piece.kept.stop]
            if self._goes(kept.storage, piece)
        }
        # What it was given stays, also where nobody keeps it otherwise.
        for storage, size in piece.inputs.items():
            if storage not in self._first and storage not in self._saved.from_outside:
                gone[storage] = -size
        of_all = sum(gone.values())
        for operator in self._saved.operators[piece.operators.start : piece.operators.stop]:
            for storage, size in operator.results if operator.is_dear else ():
                self._keep(storage, size, gone)
        decided = 0 if self._draws_again(piece) else _within(piece, self._decided_bytes)
        given = {one for one, size in piece.inputs.items() if gone.get(one) == -size}
        unneeded = sum(-size for one, size in gone.items() if size < 0 and one not in given)
        return _Saved(of_all, sum(gone.values()) - decided, unneeded + decided)

    def _draws_again(self, piece: Piece) -> bool:
        """It takes random numbers in a way that cannot be kept: then all are drawn again."""
        return _within(piece, self._draws) > 0

    def _keep(self, storage: int, size: int, gone: dict[int, int]) -> None:
        """The result of a dear operator is kept, whether backward needs it or not."""
        if storage in gone:
            del gone[storage]
        elif storage not in self._first and storage not in self._returned:
            gone[storage] = -size

    def _goes(self, storage: int, piece: Piece) -> bool:
        if self._first[storage] < piece.kept.start or self._last[storage] >= piece.kept.stop:
            return False  # somebody else keeps it too
        if storage in piece.inputs or storage in self._returned:
            return False
        # A result that a later module is given: where that one is recomputed, it stays.
        later = storage in piece.outputs and self._given.get(storage, -1) >= piece.calls.stop
        return not later

    def recompute_ms(self, piece: Piece) -> float:
        """Its forward up to the last tensor that backward needs: there torch stops."""
        return piece.forward_ms * self._share(piece, self._ms)

    def cheap_ms(self, piece: Piece) -> float:
        share = self._share(piece, self._cheap_ms)
        if self._draws_again(piece):
            share += self._share(piece, self._deciding_ms)
        return piece.forward_ms * share

    def _share(self, piece: Piece, before_ms: list[float]) -> float:
        """Of the time of its operators, that of those that run again."""
        begin, end = piece.operators.start, piece.operators.stop
        all_ms = self._ms[end] - self._ms[begin]
        if not piece.kept or all_ms <= 0:
            return 1.0
        until = max(self._saved.kept[piece.kept.stop - 1].operators, begin)
        return (before_ms[until] - before_ms[begin]) / all_ms

    def growth_bytes(self, piece: Piece) -> int:
        """How far above its start memory rose within its forward."""
        marks = self._windows.marks
        peak = max(mark.peak_bytes for mark in marks[piece.begin + 1 : piece.end + 1])
        return peak - marks[piece.begin].live_bytes


def _within(piece: Piece, before: list[int]) -> int:
    """before: sums over all operators before one."""
    return before[piece.operators.stop] - before[piece.operators.start]
