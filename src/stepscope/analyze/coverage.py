"""What was not seen, and what went wrong on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.analyze.overhead import OwnCost
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import duration, plural
from stepscope.model.phases import Phase
from stepscope.stats.quantiles import median

__all__ = ["coverage"]

# A first step that takes this much of the loop, and this many times a step, is told.
_WARM_UP_SHARE, _WARM_UP_STEPS = 0.2, 5


def coverage(
    whole: Whole,
    costs: Sequence[OwnCost],
    events: int,
    notes: Sequence[str],
    instead_of_a_loop: str = "",
) -> dict[str, Any]:
    """What is not known and why, as figures and as sentences.

    instead_of_a_loop: what to say first where none ran; "": why none was seen.
    """
    failures: dict[str, int] = {}
    for cost in costs:
        for text, count in cost.failures.items():
            failures[text] = failures.get(text, 0) + count
    dropped, lost = sum(cost.dropped for cost in costs), sum(cost.lost for cost in costs)
    return {
        "unexplained_share": whole.share(Phase.UNEXPLAINED),
        "dropped_events": dropped,
        "lost_events": lost,
        "hook_failures": [{"text": text, "count": n} for text, n in failures.items()],
        "notes": [
            *([] if whole.loops else [instead_of_a_loop or _why_no_loop(events)]),
            *_loss_notes(dropped, lost, failures),
            *_loop_notes(whole),
            *notes,
        ],
    }


def _why_no_loop(events: int) -> str:
    if not events:
        return (
            "The program recorded nothing: it is no Python program, it ended before it used torch,"
            " or its Python was started with -I, -S or -E."
        )
    return (
        "No training or inference loop was seen: no optimizer step, no backward pass, no DataLoader"
        " and no module call of torch."
    )


def _loss_notes(dropped: int, lost: int, failures: Mapping[str, int]) -> list[str]:
    notes = []
    if dropped:
        notes.append(f"{plural(dropped, 'event')} came faster than they could be kept.")
    if lost:
        notes.append(f"{plural(lost, 'event')} could not be written to disk.")
    if failures:
        text, count = max(failures.items(), key=lambda item: item[1])
        notes.append(
            f"stepscope failed {plural(sum(failures.values()), 'time')} inside the program, which"
            f" went on without it; most often ({count}): {text}"
        )
    return notes


def _loop_notes(whole: Whole) -> list[str]:
    notes = []
    blind = sum(loop.blind_steps for loop in whole.loops)
    if blind:
        notes.append(
            f"{plural(blind, 'step')} had a backward pass but no module call before it (compiled"
            " functions and the like): the CPU time before it is counted as forward."
        )
    for loop in whole.loops:
        first_ns, middle_ns = loop.durations_ns[0], median(loop.durations_ns) or 0.0
        if first_ns > max(_WARM_UP_SHARE * loop.wall_ns, _WARM_UP_STEPS * middle_ns):
            notes.append(
                f"The first step of rank {loop.rank} took {duration(first_ns)}, others"
                f" {duration(middle_ns)}: warm-up (compiling, first allocations) weighs heavily in"
                " so short a run."
            )
    return notes + [
        f"Rank {loop.rank} ended in the middle of {loop.open_span.name}, which had lasted"
        f" {duration(loop.open_span.lasted_ns)}."
        for loop in whole.loops
        if loop.open_span is not None
    ]
