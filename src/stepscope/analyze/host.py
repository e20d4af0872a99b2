"""Findings about what the training thread does around the computation: one for each phase."""

from __future__ import annotations

from stepscope.analyze.between import saved_by_hand
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.phase_finding import lies_in, phase_finding
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import bytes_text, duration, percent, plural
from stepscope.model.finding import Finding
from stepscope.model.phases import Phase
from stepscope.stats.quantiles import median

__all__ = ["checkpoint_save", "gc", "transfer", "validation"]


def validation(evidence: Evidence) -> Finding | None:
    whole = evidence.whole
    taken, wall = whole.wall(Phase.EVALUATION), whole.wall_ns
    if not taken:
        return None
    training_ns = (wall - taken) / max(1, whole.steps)
    said = [
        f"Evaluation took {duration(taken)} of the {duration(wall)} of the loop.",
        f"That is as long as {_count(taken / max(training_ns, 1))}.",
    ]
    code = evidence.model_caller(Phase.EVALUATION)  # the model's forward is that of training too
    return phase_finding(
        evidence,
        "validation",
        [Phase.EVALUATION],
        [*said, *lies_in(code)],
        location=code.location if code is not None else None,
    )


def checkpoint_save(evidence: Evidence) -> Finding | None:
    """torch.save and its like, and what is saved by hand, as far as stacks show it."""
    whole = evidence.whole
    taken, by_hand = whole.wall(Phase.CHECKPOINT_SAVE), saved_by_hand(evidence)
    if not taken and not by_hand:
        return None
    saves = sum(loop.saves for loop in whole.loops)
    saved = sum(loop.saved_bytes for loop in whole.loops)
    said = []
    if taken:
        each = f"{plural(saves, 'save')} took {duration(taken / max(1, saves))} each"
        if saved:
            each += f", {bytes_text(saved / max(1, saves))} at {bytes_text(saved * 1e9 / taken)}/s"
        said.append(f"{each}.")
    if by_hand:
        said.append(f"Saving without torch.save takes {percent(by_hand)} of the time.")
    phase = Phase.CHECKPOINT_SAVE if taken else Phase.PYTHON_BETWEEN
    measures = {"saves": float(saves), "saved_bytes": float(saved)}
    if saves:
        measures["steps_per_save"] = whole.steps / saves
    return phase_finding(
        evidence,
        "checkpoint-save",
        [phase],
        said,
        share=whole.share(Phase.CHECKPOINT_SAVE) + by_hand,
        measures=measures,
    )


def gc(evidence: Evidence) -> Finding | None:
    whole = evidence.whole
    if not whole.wall(Phase.GC):
        return None
    by_generation: dict[int, int] = {}
    for loop in whole.loops:
        for generation, count in loop.gc.collections.items():
            by_generation[generation] = by_generation.get(generation, 0) + count
    counts = ", ".join(f"{n:,} of generation {g}" for g, n in sorted(by_generation.items()))
    longest = max(loop.gc.longest_ns for loop in whole.loops)
    said = [
        f"Python collected garbage {plural(sum(by_generation.values()), 'time')}: {counts}.",
        f"The longest pause lasted {duration(longest)}; the median step takes {_median(whole)}.",
    ]
    measures = {"longest_ms": longest / 1e6, "full_collections": float(by_generation.get(2, 0))}
    return phase_finding(evidence, "gc", [Phase.GC], said, measures=measures)


def _median(whole: Whole) -> str:
    return duration(median(d for loop in whole.loops for d in loop.durations_ns) or 0.0)


def transfer(evidence: Evidence) -> Finding | None:
    whole = evidence.whole
    taken = whole.wall(Phase.TRANSFER)
    if not taken:
        return None
    moved = sum(loop.transferred_bytes for loop in whole.loops)
    said = [
        (
            f"{bytes_text(moved / max(1, whole.steps))} a step moved between host and device,"
            f" at {bytes_text(moved * 1e9 / taken)}/s."
        )
    ]
    measures = {"transferred_bytes": float(moved)}
    pinned = whole.loader.settings.get("pin_memory") if whole.loader is not None else None
    if pinned is not None:
        measures["pin_memory"] = float(bool(pinned))
        said.append(f"The loader has pin_memory={bool(pinned)}.")
    return phase_finding(evidence, "transfer", [Phase.TRANSFER], said, measures=measures)


def _count(steps: float) -> str:
    """Of a step, where it is less than ten: accumulation makes few and long ones."""
    if steps < 1:
        return f"{percent(steps)} of a training step"
    return f"{steps:,.0f} training steps" if steps >= 10 else f"{steps:.2g} training steps"
