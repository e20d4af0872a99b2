"""Findings about what the host does between and around the computation."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import bytes_text, duration, percent, plural
from stepscope.model.finding import Finding
from stepscope.model.phases import Phase
from stepscope.stats.quantiles import median

__all__ = ["host_findings"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
# Field practice for too many threads: run-queue delay against CPU time.
_DELAY_PER_CPU = 0.3


def host_findings(whole: Whole) -> Iterator[Finding]:
    """One finding for each phase of the host that took time; two more where samples show them."""
    for phase, make in (
        (Phase.PYTHON_BETWEEN, _python_in_loop),
        (Phase.EVALUATION, _validation),
        (Phase.CHECKPOINT_SAVE, _checkpoint_save),
        (Phase.GC, _gc),
        (Phase.TRANSFER, _transfer),
    ):
        if whole.wall(phase):
            yield make(whole)
    yield from _oversubscription(whole)
    yield from _swap(whole)


def _finding(
    whole: Whole,
    kind: str,
    title: str,
    phase: Phase,
    evidence: list[str],
    measures: dict[str, float] | None = None,
    missing: tuple[str, ...] = (),
) -> Finding:
    share = whole.share(phase)
    return Finding(
        kind=kind,
        title=f"{title} {percent(share)} of the time",
        share=share,
        severity=severity(kind, share),
        confidence=confidence(whole, phase),
        evidence=tuple(evidence),
        missing=missing,
        measures={"step_ms": whole.step_ns / 1e6, **(measures or {})},
    )


def _python_in_loop(whole: Whole) -> Finding:
    phase = Phase.PYTHON_BETWEEN
    per_step = duration(whole.wall(phase) / max(1, whole.steps))
    evidence = [f"{per_step} of every {duration(whole.step_ns)} step lie between known activities."]
    busy = whole.cpu_share(phase)
    measures = {}
    if busy is not None:
        measures["busy_share"] = busy
        did = "computed" if busy >= 0.5 else "was blocked (sleeping, waiting for a file or a lock)"
        evidence.append(f"{percent(max(busy, 1 - busy))} of that time the training thread {did}.")
    missing = ("Which lines of the program these are was not measured.",)
    title = "host-bound: your own Python code in the loop takes"
    return _finding(whole, "python-in-loop", title, phase, evidence, measures, missing)


def _validation(whole: Whole) -> Finding:
    taken, wall = whole.wall(Phase.EVALUATION), whole.wall_ns
    evidence = [f"Evaluation took {duration(taken)} of the {duration(wall)} of the loop."]
    training_ns = (wall - taken) / max(1, whole.steps)
    evidence.append(f"That is as long as {taken / max(training_ns, 1):,.0f} training steps.")
    title = "evaluation-bound: evaluation takes"
    return _finding(whole, "validation", title, Phase.EVALUATION, evidence)


def _checkpoint_save(whole: Whole) -> Finding:
    saves = sum(loop.saves for loop in whole.loops)
    saved = sum(loop.saved_bytes for loop in whole.loops)
    taken = whole.wall(Phase.CHECKPOINT_SAVE)
    each = f"{plural(saves, 'save')} took {duration(taken / max(1, saves))} each"
    if saved:
        each += f", {bytes_text(saved / max(1, saves))} at {bytes_text(saved * 1e9 / taken)}/s"
    title = "save-bound: writing checkpoints takes"
    measures = {"saves": float(saves), "saved_bytes": float(saved)}
    return _finding(whole, "checkpoint-save", title, Phase.CHECKPOINT_SAVE, [f"{each}."], measures)


def _gc(whole: Whole) -> Finding:
    by_generation: dict[int, int] = {}
    for loop in whole.loops:
        for generation, count in loop.gc.collections.items():
            by_generation[generation] = by_generation.get(generation, 0) + count
    counts = ", ".join(f"{n:,} of generation {g}" for g, n in sorted(by_generation.items()))
    longest = max(loop.gc.longest_ns for loop in whole.loops)
    evidence = [
        f"Python collected garbage {plural(sum(by_generation.values()), 'time')}: {counts}.",
        f"The longest pause lasted {duration(longest)}; the median step takes {_median(whole)}.",
    ]
    measures = {"longest_ms": longest / 1e6, "full_collections": float(by_generation.get(2, 0))}
    return _finding(
        whole, "gc", "host-bound: garbage collection takes", Phase.GC, evidence, measures
    )


def _median(whole: Whole) -> str:
    return duration(median(d for loop in whole.loops for d in loop.durations_ns) or 0.0)


def _transfer(whole: Whole) -> Finding:
    taken = whole.wall(Phase.TRANSFER)
    moved = sum(loop.transferred_bytes for loop in whole.loops)
    evidence = [
        (
            f"{bytes_text(moved / max(1, whole.steps))} a step moved between host and device,"
            f" at {bytes_text(moved * 1e9 / taken)}/s."
        )
    ]
    title = "transfer-bound: moving tensors between devices takes"
    measures = {"transferred_bytes": float(moved)}
    return _finding(whole, "transfer", title, Phase.TRANSFER, evidence, measures)


def _oversubscription(whole: Whole) -> Iterator[Finding]:
    """Threads that were ready and had no CPU: named only where that is beyond doubt.

    The share is what computation lost at most: time in which the training thread did not run
    although it had to compute, and no more than its process waited for a CPU.
    """
    resources = whole.resources
    program, children, cpus = resources.program, resources.children, resources.cpu_count
    if program.run_delay_cores is None or program.cpu_cores is None or not cpus:
        return
    delay = program.run_delay_cores + (children.run_delay_cores or 0.0)
    used = program.cpu_cores + (children.cpu_cores or 0.0)
    ran = whole.cpu_share(*_COMPUTE)
    if ran is None or used + delay < 1.5 * cpus or delay < _DELAY_PER_CPU * used:
        return
    ranks = len(whole.loops)
    share = min(whole.share(*_COMPUTE) * (1 - ran), program.run_delay_cores / ranks)
    if share <= 0:
        return
    kind = "oversubscription"
    yield Finding(
        kind=kind,
        title=f"host-bound: more threads than CPUs cost up to {percent(share)} of the time",
        share=share,
        severity=severity(kind, share),
        confidence=confidence(whole, *_COMPUTE, separated=1 - _DELAY_PER_CPU * used / delay),
        evidence=(
            (
                f"On average {used + delay:.1f} threads wanted one of {cpus:g} CPUs;"
                f" {delay:.1f} of them had to wait."
            ),
        ),
        measures={"cpu_count": cpus, "threads_wanting_cpu": used + delay, "ranks": float(ranks)},
    )


def _swap(whole: Whole) -> Iterator[Finding]:
    resources = whole.resources
    pages, pressure = resources.swap_in_pages_per_s, resources.pressure_memory_share
    if not pages or not pressure:
        return
    kind = "swap"
    yield Finding(
        kind=kind,
        title=f"host-bound: memory ran short, which cost up to {percent(pressure)} of the time",
        share=pressure,
        severity=severity(kind, pressure),
        confidence=whole.coverage * 0.5,  # a thrown coin: nothing ties the stalls to this run
        evidence=(
            (
                f"{pages:,.0f} pages a second came back from swap;"
                f" tasks stalled for memory {percent(pressure)} of the time."
            ),
        ),
        missing=("Whether the stalled tasks are those of the training was not measured.",),
    )
