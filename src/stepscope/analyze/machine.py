"""Findings about threads that get in each other's way, and about memory that ran short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence, UserCode
from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.phase_finding import place
from stepscope.analyze.words import percent
from stepscope.model import traits
from stepscope.model.details import OTHER_THREADS
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS, Signal
from stepscope.model.phases import Phase

__all__ = [
    "GilLoss",
    "busy_machine",
    "gil",
    "gil_loss",
    "oversubscription",
    "ranks_of",
    "swap",
]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def oversubscription(evidence: Evidence) -> Finding | None:
    """Threads of this run that wait for each other: the share is what the training thread, and
    batches that it needs, waited for a CPU that another of them had."""
    whole = evidence.whole
    wait, cpus = whole.cpu_wait, whole.resources.cpu_count
    if wait.own <= 0 or not cpus:
        return None
    kind, ranks = "oversubscription", len(whole.loops)
    threads = evidence.trait(traits.THREADS)
    code = evidence.model_caller(*_COMPUTE)
    used = wait.own_threads - wait.own_waiting
    clear = Signal.DELAY_PER_CPU_TIME * used / wait.own_waiting
    return Finding(
        kind=kind,
        title=KINDS[kind].title(wait.own),
        share=wait.own,
        severity=severity(kind, wait.own),
        confidence=confidence(whole, *_COMPUTE, separated=max(0.0, 1 - clear)),
        evidence=(
            (
                f"On average {wait.own_threads:.1f} threads wanted one of {cpus:g} CPUs;"
                f" {wait.own_waiting:.1f} of them had to wait."
            ),
            *_asked_for(threads, ranks, cpus),
        ),
        location=code.location if code is not None else Location(),
        measures={
            "cpu_count": cpus,
            "threads_wanting_cpu": wait.own_threads,
            "ranks": float(ranks),
            **({} if threads is None else {"threads": float(threads)}),
        },
    )


def busy_machine(evidence: Evidence) -> Finding | None:
    """Other programs use the CPUs, and this one was ready and had to wait for them."""
    whole = evidence.whole
    wait, cpus = whole.cpu_wait, whole.resources.cpu_count
    if wait.others <= 0 or not cpus:
        return None
    kind = "busy-machine"
    said = [
        f"Other programs kept {wait.others_cores:.1f} of {cpus:g} CPUs busy.",
        f"The training thread was ready but had no CPU {percent(wait.thread)} of the loop.",
    ]
    if wait.workers:
        said.append(f"Loader workers that had no CPU add {percent(wait.workers)}.")
    said.append("The shares of other causes are given without this waiting.")
    measured = whole.resources.program.main_delay_cores is not None
    unknown = "Only the delay of all threads together was measured, not the training thread's own."
    return Finding(
        kind=kind,
        title=KINDS[kind].title(wait.others),
        share=wait.others,
        severity=severity(kind, wait.others),
        confidence=confidence(whole, *Phase, separated=1.0 if measured else 0.0),
        evidence=tuple(said),
        missing=() if measured else (unknown,),
        measures={"cpu_count": cpus, "others_cores": wait.others_cores},
    )


def _asked_for(threads: int | None, ranks: int, cpus: float) -> Iterator[str]:
    if threads is not None:
        of = f" in each of {ranks} processes" if ranks > 1 else ""
        yield f"torch computes with {threads} threads{of} on {cpus:g} CPUs."


class GilLoss(NamedTuple):
    """Time that the training thread lost to other threads of its process."""

    by_phase: dict[Phase, float]  # shares of the loop
    others: float  # CPUs that those threads kept busy
    delayed: float  # share of the loop in which the thread was ready but without a CPU
    off: float  # of the computation, neither on a CPU nor waiting for one

    @property
    def share(self) -> float:
        return sum(self.by_phase.values())


def gil_loss(evidence: Evidence) -> GilLoss | None:
    """Time in which the thread neither ran nor waited for a CPU, in phases that have nothing else
    to wait for: no more than other threads ran, and ran Python where stacks were sampled. None:
    nothing was lost, or it is not known. With a GPU computing waits for more than a CPU.
    """
    whole = evidence.whole
    program, ranks = whole.resources.program, len(whole.loops)
    ran, ran_in_all = whole.cpu_share(*_COMPUTE), whole.thread_cores
    if program.cpu_cores is None or program.run_delay_cores is None or whole.resources.gpus:
        return None
    if ran is None or ran_in_all is None or program.cpu_cores / ranks > Signal.GIL_CORES:
        return None
    others = program.cpu_cores / ranks - ran_in_all
    in_python = _share_of_python(evidence)
    if others < Signal.RIVAL_CORES or in_python <= 0:
        return None
    blocked = {phase: whole.blocked_share(phase) for phase in _COMPUTE}
    # Code between the phases may wait for much else: no more of it is laid to the lock.
    blocked[Phase.PYTHON_BETWEEN] = min(
        whole.share(Phase.PYTHON_BETWEEN) * (1 - ran), whole.blocked_share(Phase.PYTHON_BETWEEN)
    )
    total = sum(blocked.values())
    lost = min(total, others, in_python)
    if lost <= 0:
        return None
    by_phase = {phase: share * lost / total for phase, share in blocked.items()}
    return GilLoss(by_phase, others, whole.cpu_wait.thread, 1 - ran)


def _share_of_python(evidence: Evidence) -> float:
    """How much of the loop's time other threads ran Python, or wanted to. 1 where stacks were not
    sampled, unless other ranks are there to wait for, too."""
    whole = evidence.whole
    if not any(one.where == "main" for one in evidence.details.stacks):
        return 0.0 if ranks_of(evidence) > 1 else 1.0
    ms = sum(one.ms for one in evidence.stacks("thread", OTHER_THREADS))
    return ms * 1e6 / whole.wall_ns


def ranks_of(evidence: Evidence) -> int:
    """How many ranks exchange data, as far as it is known."""
    return int(evidence.trait(traits.WORLD_SIZE) or 1)


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
        title=KINDS[kind].title(loss.share),
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
                f"Where it had to compute, the training thread was blocked {percent(loss.off)} of"
                f" the time, and ready but without a CPU {percent(loss.delayed)} of the loop."
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
        title=KINDS[kind].title(pressure),
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
