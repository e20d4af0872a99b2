"""Findings about threads that get in each other's way, and about memory that ran short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence, UserCode
from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.loader_facts import loader_workers
from stepscope.analyze.phase_finding import place
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import percent
from stepscope.model import traits
from stepscope.model.details import OTHER_THREADS
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["GilLoss", "crowded_workers", "gil", "gil_loss", "oversubscription", "swap"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def oversubscription(evidence: Evidence) -> Finding | None:
    """Threads that were ready and had no CPU: named only where that is beyond doubt.

    The share is what computation lost at most: time in which the training thread did not run
    although it had to compute, and no more than its process waited for a CPU.
    """
    whole = evidence.whole
    resources = whole.resources
    program, children, cpus = resources.program, resources.children, resources.cpu_count
    if program.run_delay_cores is None or program.cpu_cores is None or not cpus:
        return None
    delay = program.run_delay_cores + (children.run_delay_cores or 0.0)
    used = program.cpu_cores + (children.cpu_cores or 0.0)
    ran = whole.cpu_share(*_COMPUTE)
    if ran is None or used + delay < Signal.WANTED_PER_CPU * cpus:
        return None
    if delay < Signal.DELAY_PER_CPU_TIME * used:
        return None
    ranks = len(whole.loops)
    share = min(whole.share(*_COMPUTE) * (1 - ran), program.run_delay_cores / ranks)
    share += whole.share(Phase.INPUT_WAIT) * crowded_workers(whole)
    if share <= 0:
        return None
    kind = "oversubscription"
    threads = evidence.trait(traits.THREADS)
    code = evidence.model_caller(*_COMPUTE)
    return Finding(
        kind=kind,
        title=f"host-bound: more threads than CPUs cost up to {percent(share)} of the time",
        share=share,
        severity=severity(kind, share),
        confidence=confidence(
            whole, *_COMPUTE, separated=1 - Signal.DELAY_PER_CPU_TIME * used / delay
        ),
        evidence=(
            (
                f"On average {used + delay:.1f} threads wanted one of {cpus:g} CPUs;"
                f" {delay:.1f} of them had to wait."
            ),
            *_asked_for(threads, ranks, cpus),
        ),
        location=code.location if code is not None else Location(),
        measures={
            "cpu_count": cpus,
            "threads_wanting_cpu": used + delay,
            "ranks": float(ranks),
            **({} if threads is None else {"threads": float(threads)}),
        },
    )


def crowded_workers(whole: Whole) -> float:
    """Of the wait for input: what loader workers lose because each of them has several threads,
    and together these want more CPUs than there are. One thread a worker is no crowd: then the
    batches need the CPUs."""
    children, cpus = whole.resources.children, whole.resources.cpu_count
    workers = (loader_workers(whole.loader) or 0) * len(whole.loops)
    if not workers or not cpus or children.cpu_cores is None or not children.run_delay_cores:
        return 0.0
    wanted = children.cpu_cores + children.run_delay_cores
    if wanted < Signal.WANTED_PER_CPU * max(cpus, workers):
        return 0.0
    return children.run_delay_cores / wanted


def _asked_for(threads: int | None, ranks: int, cpus: float) -> Iterator[str]:
    if threads is not None:
        of = f" in each of {ranks} processes" if ranks > 1 else ""
        yield f"torch computes with {threads} threads{of} on {cpus:g} CPUs."


class GilLoss(NamedTuple):
    """Shares of the loop's time that the training thread lost to other threads of its process."""

    computing: float
    between: float
    others: float  # CPUs that those threads kept busy
    delayed: float  # at most: ready but without a CPU
    off: float  # of the computation, off the CPU

    @property
    def share(self) -> float:
        return self.computing + self.between


def gil_loss(evidence: Evidence) -> GilLoss | None:
    """Time off the CPU in phases that have nothing to wait for, less what was spent ready but
    without a CPU, and no more than the other threads ran. None: nothing was lost, or it is not
    known. With a GPU computing waits for more than a CPU, and nothing can be said.
    """
    whole = evidence.whole
    program, ranks = whole.resources.program, len(whole.loops)
    ran, ran_in_all = whole.cpu_share(*_COMPUTE), whole.cpu_share(*Phase)
    between_ran = whole.cpu_share(Phase.PYTHON_BETWEEN)
    if program.cpu_cores is None or program.run_delay_cores is None or whole.resources.gpus:
        return None
    if ran is None or ran_in_all is None or program.cpu_cores / ranks > Signal.GIL_CORES:
        return None
    others = program.cpu_cores / ranks - ran_in_all
    computing = whole.share(*_COMPUTE) * (1 - ran)
    blocked = 0.0 if between_ran is None else 1 - between_ran
    # Code between the phases may wait for much else: no more of it is laid to the lock.
    between = whole.share(Phase.PYTHON_BETWEEN) * min(1 - ran, blocked)
    delayed = program.run_delay_cores / ranks
    lost = min(computing + between - delayed, others)
    if others < Signal.RIVAL_CORES or lost <= 0:
        return None
    scale = lost / (computing + between)
    return GilLoss(computing * scale, between * scale, others, delayed, 1 - ran)


def gil(evidence: Evidence) -> Finding | None:
    """A training thread that neither runs nor waits for a CPU while other threads of its process
    run: they hold the interpreter's lock."""
    loss = gil_loss(evidence)
    if loss is None:
        return None
    kind, whole = "gil", evidence.whole
    holder = evidence.user_code("thread", OTHER_THREADS)
    return Finding(
        kind=kind,
        title=f"host-bound: other Python threads hold the interpreter {percent(loss.share)}"
        " of the time",
        share=loss.share,
        severity=severity(kind, loss.share),
        confidence=confidence(
            whole,
            *_COMPUTE,
            Phase.PYTHON_BETWEEN,
            separated=loss.share / (loss.share + loss.delayed),
        ),
        evidence=(
            (
                f"Where it had to compute, the training thread was off the CPU {percent(loss.off)}"
                f" of the time, and ready but without a CPU at most {percent(loss.delayed)} of the"
                " loop."
            ),
            (
                f"Other threads of the process kept {loss.others:.1f} CPUs busy, and all together"
                f" no more than {Signal.GIL_CORES:g}: they took turns."
            ),
            *_holder_text(holder),
        ),
        missing=() if holder is not None else ("Which thread held the lock was not measured.",),
        location=holder.location if holder is not None else place(evidence, Phase.PYTHON_BETWEEN),
        measures={"other_threads_cores": loss.others, "off_cpu_share": loss.off},
    )


def _holder_text(holder: UserCode | None) -> Iterator[str]:
    if holder is not None:
        at = holder.location
        yield (
            f"{percent(holder.share)} of the time in which they ran Python lies in {at.function},"
            f" {at.file}:{at.line}."
        )


def swap(evidence: Evidence) -> Finding | None:
    whole = evidence.whole
    resources = whole.resources
    pages, pressure = resources.swap_in_pages_per_s, resources.pressure_memory_share
    if not pages or not pressure:
        return None
    kind = "swap"
    faults = (resources.program.major_faults_per_s or 0.0) + (
        resources.children.major_faults_per_s or 0.0
    )
    ours = min(1.0, faults / pages)  # how much of the swapping this run's own faults explain
    tied = (f"This run's own processes had to read {faults:,.0f} pages a second.",)
    unknown = ("Whether the stalled tasks are those of the training was not measured.",)
    return Finding(
        kind=kind,
        title=f"host-bound: memory ran short, which cost up to {percent(pressure)} of the time",
        share=pressure,
        severity=severity(kind, pressure),
        confidence=whole.coverage * (0.5 + 0.5 * ours),  # a thrown coin without own faults
        evidence=(
            (
                f"{pages:,.0f} pages a second came back from swap;"
                f" tasks stalled for memory {percent(pressure)} of the time."
            ),
            *(tied if faults else ()),
        ),
        missing=() if faults else unknown,
    )
