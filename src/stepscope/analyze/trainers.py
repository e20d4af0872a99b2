"""Which loops of a run its report is about, where a rank has several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.analyze.loop import Loop
from stepscope.analyze.steps import FoundBy
from stepscope.analyze.words import duration, plural

__all__ = ["chosen_loops", "trainer_notes"]


def chosen_loops(loops: Iterable[Loop]) -> tuple[list[Loop], list[Loop]]:
    """The loops to report, by rank, and those of other trainers.

    Of each rank, that is its main loop: training counts before running a model, then time. With it
    go other processes of the rank that train for most of its time (Hogwild). Not so its threads:
    they share one interpreter, so the figures of two would not add up.
    """
    chosen: list[Loop] = []
    left_out: list[Loop] = []
    by_rank: dict[int, list[Loop]] = {}
    for loop in loops:
        by_rank.setdefault(loop.rank, []).append(loop)
    for rank in sorted(by_rank):
        main, *others = sorted(by_rank[rank], key=lambda one: (-one.found_by, -one.wall_ns))
        chosen.append(main)
        pids = {main.pid}
        for other in others:
            if other.pid not in pids and _trains_beside(other, main):
                chosen.append(other)
                pids.add(other.pid)
            elif other.found_by is FoundBy.OPTIMIZER:
                left_out.append(other)
    return chosen, left_out


def _trains_beside(other: Loop, main: Loop) -> bool:
    shared_ns = min(other.end_ns, main.end_ns) - max(other.start_ns, main.start_ns)
    return other.found_by is FoundBy.OPTIMIZER and 2 * shared_ns > main.wall_ns


def trainer_notes(loops: Sequence[Loop], left_out: Sequence[Loop]) -> list[str]:
    """What a reader must know where a rank has more than one trainer."""
    notes = []
    for rank in sorted({loop.rank for loop in loops}):
        steps = [loop.steps for loop in loops if loop.rank == rank]
        if len(steps) > 1:
            each = ", ".join(f"{count:,}" for count in steps)
            notes.append(
                f"{len(steps)} processes trained at the same time and took {each} steps; times and"
                " shares are averages over them."
            )
    pids = {loop.pid for loop in loops}
    for loop in left_out:
        what = "Another thread" if loop.pid in pids else f"Process {loop.pid}"
        notes.append(
            f"{what} trained too and is not part of this report: {plural(loop.steps, 'step')} in"
            f" {duration(loop.wall_ns)}."
        )
    return notes
