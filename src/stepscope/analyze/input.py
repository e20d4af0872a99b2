"""Findings about the input: did the loop wait for data, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.input_costs import BatchCosts, batch_costs
from stepscope.analyze.input_stages import stage_findings
from stepscope.analyze.judge import confidence, separation, severity
from stepscope.analyze.loader_facts import (
    loader_measures,
    loader_workers,
    sample_location,
    startup_location,
    wait_text,
)
from stepscope.analyze.loop import LoaderUse
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import bytes_text, duration, percent, plural
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS, Signal
from stepscope.model.phases import Phase

__all__ = ["input_findings"]


def input_findings(evidence: Evidence) -> Iterator[Finding]:
    """Starting the workers, and the rest of the wait by what its batches take their time for.

    Their shares add up to that of the wait. Without a look into the pipeline the start of workers
    is named only where it dominates, and the rest has one cause.
    """
    whole = evidence.whole
    waited_ns = float(whole.wall(Phase.INPUT_WAIT))
    if not waited_ns:
        return
    costs = batch_costs(evidence)
    startup_ns = sum(_startup_ns(whole, use, costs) for loop in whole.loops for use in loop.loaders)
    startup_ns = min(startup_ns, waited_ns)
    moderate = KINDS["input-worker-startup"].moderate_share
    named = startup_ns >= min(moderate * whole.wall_ns, (1.0 - Signal.DOMINANT) * waited_ns)
    if startup_ns > waited_ns / 2 or (costs is not None and startup_ns and named):
        yield _worker_startup(evidence, startup_ns)
        waited_ns -= startup_ns
    share = waited_ns / whole.wall_ns
    if costs is None:
        yield _waiting(evidence, share)
    else:
        yield from stage_findings(evidence, costs, share)


class _Cause(NamedTuple):
    """busy: share of the time in which making batches kept a CPU busy or wanted one."""

    busy: float | None
    evidence: tuple[str, ...]
    missing: tuple[str, ...] = ()


def _waiting(evidence: Evidence, share: float) -> Finding:
    """Without a look into the pipeline: one finding, CPU or not."""
    whole = evidence.whole
    workers = loader_workers(whole.loader)
    cause = _by_workers(whole, workers) if workers else _in_this_process(whole, workers)
    is_cpu = cause.busy is None or cause.busy >= 0.5
    kind = "input-cpu" if is_cpu else "input-io"
    return Finding(
        kind=kind,
        title=KINDS[kind].title(share),
        share=share,
        severity=severity(kind, share),
        confidence=confidence(whole, Phase.INPUT_WAIT, separated=separation(cause.busy)),
        evidence=cause.evidence,
        missing=cause.missing,
        location=sample_location(evidence),
        measures=loader_measures(
            whole, workers, cause.busy if workers else whole.cpu_share(Phase.INPUT_WAIT)
        ),
    )


def _in_this_process(whole: Whole, workers: int | None) -> _Cause:
    """The training thread makes the batches itself: its own CPU clock tells."""
    busy = whole.cpu_share(Phase.INPUT_WAIT)
    how = " (num_workers=0)" if workers == 0 else ""
    missing = [] if workers is not None else ["The settings of the loader were not seen."]
    if busy is None:
        missing.append("The CPU clock of the thread was not read: computing or waiting is a guess.")
        return _Cause(None, (f"{wait_text(whole)}{how}.",), tuple(missing))
    if busy >= 0.5:
        did = f"{percent(busy)} of that it computed in this process{how}"
        return _Cause(busy, (f"{wait_text(whole)}; {did}.",), tuple(missing))
    first = f"{wait_text(whole)}; {percent(1 - busy)} of that it was blocked{how}."
    evidence, unknown = _reading(whole, children=False)
    return _Cause(busy, (first, *evidence), (*missing, *unknown))


def _by_workers(whole: Whole, workers: int) -> _Cause:
    """Worker processes make the batches: do they keep their CPUs busy, or wait themselves?"""
    first = f"{wait_text(whole)} from {plural(workers, 'worker')}."
    children = whole.resources.children
    all_workers = workers * len(whole.loops)
    seen = all_workers if children.seen is None else children.seen
    if children.cpu_cores is None or seen < all_workers / 2:
        unknown = "The CPU time of the workers was not measured: computing or waiting is a guess."
        return _Cause(None, (first,), (unknown,))
    counted = min(all_workers, seen)
    busy = min(1.0, children.cpu_cores / counted)
    delayed = min(1.0 - busy, (children.run_delay_cores or 0.0) / counted)
    second = f"A worker computed {percent(busy)} of the time"
    if delayed >= 0.05:
        second += f" and was ready but without a CPU for another {percent(delayed)}"
    used, cpus = _cpus_used(whole), whole.resources.cpu_count
    if used is not None and cpus and used >= Signal.SATURATED * cpus:
        third = f"Program and workers together kept {used:.1f} of {cpus:g} CPUs busy."
        return _Cause(max(busy + delayed, min(1.0, used / cpus)), (first, f"{second}.", third))
    if busy + delayed >= 0.5:
        return _Cause(busy + delayed, (first, f"{second}."))
    evidence, missing = _reading(whole, children=True)
    return _Cause(busy + delayed, (first, f"{second}.", *evidence), missing)


def _cpus_used(whole: Whole) -> float | None:
    program, children = whole.resources.program.cpu_cores, whole.resources.children.cpu_cores
    return None if program is None or children is None else program + children


def _reading(whole: Whole, children: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is known of the waiting: (evidence, missing)."""
    use = whole.resources.children if children else whole.resources.program
    who = "The workers" if children else "The process"
    read = use.read_bytes_per_s
    if read is None:
        return (), ("What it waited for was not measured: disk, network or another process.",)
    if read >= Signal.DISK_BYTES_PER_BLOCKED_S:
        return (f"{who} read {bytes_text(read)}/s from the disk.",), ()
    evidence = f"{who} read next to nothing from the disk ({bytes_text(read)}/s)."
    return (evidence,), ("Whether it waited for a network, a lock or a sleep was not measured.",)


def _startup_ns(whole: Whole, use: LoaderUse, costs: BatchCosts | None) -> float:
    """Starting and stopping workers: iter(), the end of an iteration, and what the first batch took
    beyond making one: as workers measured it, or as long as batches come apart once they run."""
    workers = loader_workers(use)
    if not workers or not use.batches:
        return 0.0
    around_ns = float(use.iter_ns + use.last_ns)
    if costs is not None:
        a_batch_ns = 1e6 * (costs.made_ms + costs.receive_ms)
    elif use.batches < 2 * workers * use.iterations:
        return around_ns  # too few batches to know what one takes once workers run
    else:
        running_ns = whole.wall_ns / len(whole.loops) - around_ns - use.first_ns
        a_batch_ns = workers * running_ns / use.batches
    return around_ns + max(0.0, use.first_ns - use.iterations * a_batch_ns)


def _worker_startup(evidence: Evidence, startup_ns: float) -> Finding:
    whole = evidence.whole
    uses = [use for loop in whole.loops for use in loop.loaders if loader_workers(use)]
    iterations = sum(use.iterations for use in uses)
    share = startup_ns / whole.wall_ns
    kind = "input-worker-startup"
    measures = loader_measures(whole, loader_workers(whole.loader), None) | {
        "iterations": float(iterations)
    }
    return Finding(
        kind=kind,
        title=KINDS[kind].title(share),
        share=share,
        severity=severity(kind, share),
        confidence=confidence(
            whole,
            Phase.INPUT_WAIT,
            separated=separation(startup_ns / whole.wall(Phase.INPUT_WAIT)),
        ),
        evidence=(
            (
                f"Workers were started {plural(iterations, 'time')}; each time the first batch came"
                f" {duration(startup_ns / max(1, iterations))} later than it had to."
            ),
        ),
        location=startup_location(evidence, startup_ns),
        measures=measures,
    )
