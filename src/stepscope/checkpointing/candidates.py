"""What recomputing a segment would save and cost, from the profiled step."""

from __future__ import annotations

from typing import Final, NamedTuple

from stepscope.checkpointing.pieces import Piece, Profiled, pieces_of
from stepscope.model.checkpoint_plan import ALL, CHEAP, Segment

__all__ = ["Candidate", "Overheads", "Rerun", "candidates_of"]

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
    calls: frozenset[int]  # it covers: two candidates that share one cannot both be chosen


def candidates_of(profiled: Profiled, overheads: Overheads) -> list[Candidate]:
    """In the order of forward, larger before smaller. Of those that cover the same calls the one
    that saves most stands for all."""
    uses = _Uses(profiled)
    least = LEAST_SHARE * profiled.windows.peak_bytes
    best: dict[tuple[frozenset[int], str], Candidate] = {}
    for segment, pieces in pieces_of(profiled).items():
        for recompute in (ALL, CHEAP):
            one = _candidate(segment._replace(recompute=recompute), pieces, uses, overheads)
            key = (_operators(pieces), recompute)
            if one.saved_bytes > least and (
                key not in best or one.saved_bytes > best[key].saved_bytes
            ):
                best[key] = one
    both = {
        key: one
        for key, one in best.items()
        if key[1] == ALL or _is_better_than_all(one, best.get((key[0], ALL)))
    }
    return sorted(both.values(), key=lambda one: (min(one.calls), -len(one.calls)))


def _operators(pieces: list[Piece]) -> frozenset[int]:
    return frozenset(number for piece in pieces for number in piece.operators)


def _is_better_than_all(cheap: Candidate, full: Candidate | None) -> bool:
    return full is None or cheap.recompute_ms < full.recompute_ms


def _candidate(
    segment: Segment, pieces: list[Piece], uses: _Uses, overheads: Overheads
) -> Candidate:
    with_all = [uses.saved_bytes(piece) - overheads.call_bytes for piece in pieces]
    if segment.recompute == CHEAP:
        saved = [uses.saved_bytes(p, cheaply=True) - overheads.call_bytes for p in pieces]
        recompute_ms = sum(
            uses.recompute_ms(p, cheaply=True) + len(p.operators) * overheads.operator_ms
            for p in pieces
        )
    else:
        saved, recompute_ms = with_all, sum(uses.recompute_ms(p) for p in pieces)
    return Candidate(
        segment,
        min(saved),
        recompute_ms + len(pieces) * overheads.call_ms,
        tuple(range(piece.end + 1, piece.backward + 1) for piece in pieces),
        tuple(
            Rerun(piece.backward, uses.growth_bytes(piece) - whole)
            for piece, whole in zip(pieces, with_all, strict=True)
        ),
        frozenset(number for piece in pieces for number in piece.calls),
    )


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
        self._ms = [self._saved.operator_ms(one) for one in self._saved.operators]

    def saved_bytes(self, piece: Piece, cheaply: bool = False) -> int:
        """That need not be kept from the end of its forward on. Below 0: it would keep more."""
        gone = {
            kept.storage: kept.bytes
            for kept in self._saved.kept[piece.kept.start : piece.kept.stop]
            if self._goes(kept.storage, piece)
        }
        # What it was given stays, also where nobody keeps it otherwise.
        for storage, bytes_ in piece.inputs.items():
            if storage not in self._first and storage not in self._saved.from_outside:
                gone[storage] = -bytes_
        if cheaply:
            for operator in self._saved.operators[piece.operators.start : piece.operators.stop]:
                for storage, bytes_ in operator.results if operator.is_dear else ():
                    self._keep(storage, bytes_, piece, gone)
        return sum(gone.values())

    def _keep(self, storage: int, bytes_: int, piece: Piece, gone: dict[int, int]) -> None:
        """The result of a dear operator is kept, whether backward needs it or not."""
        if storage in gone:
            del gone[storage]
        elif storage not in self._first and storage not in piece.outputs:
            gone[storage] = -bytes_

    def _goes(self, storage: int, piece: Piece) -> bool:
        if storage in piece.inputs or storage in self._returned:
            return False
        if self._first[storage] < piece.kept.start or self._last[storage] >= piece.kept.stop:
            return False  # somebody else keeps it too
        # A result that a later module is given: where that one is recomputed, it stays.
        later = storage in piece.outputs and self._given.get(storage, -1) >= piece.calls.stop
        return not later

    def recompute_ms(self, piece: Piece, cheaply: bool = False) -> float:
        """Its forward up to the last tensor that backward needs: there torch stops."""
        if not piece.kept or not piece.operators:
            return piece.forward_ms
        until = max(self._saved.kept[piece.kept.stop - 1].operators, piece.operators.start)
        again = range(piece.operators.start, until)
        all_ms = sum(self._ms[at] for at in piece.operators)
        again_ms = sum(
            self._ms[at] for at in again if not (cheaply and self._saved.operators[at].is_dear)
        )
        return piece.forward_ms * (again_ms / all_ms if all_ms > 0 else 1.0)

    def growth_bytes(self, piece: Piece) -> int:
        """How far above its start memory rose within its forward."""
        marks = self._windows.marks
        peak = max(mark.peak_bytes for mark in marks[piece.begin + 1 : piece.end + 1])
        return peak - marks[piece.begin].live_bytes
