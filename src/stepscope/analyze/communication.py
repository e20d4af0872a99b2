"""Findings about waiting for other ranks."""

from __future__ import annotations

import re

from stepscope.analyze.evidence import Evidence, matching_share
from stepscope.analyze.machine import gil_loss, ranks_of
from stepscope.analyze.phase_finding import phase_finding
from stepscope.analyze.words import duration, percent
from stepscope.model.details import FlameNode
from stepscope.model.finding import Finding
from stepscope.model.phases import Phase

__all__ = ["communication", "communication_loss"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
_COLLECTIVES = re.compile(r"(^|[/\\])torch[/\\]distributed[/\\]")


def communication_loss(evidence: Evidence) -> dict[Phase, float]:
    """Shares of the loop in which the training thread waited for other ranks; {} where none did.

    With several ranks and no GPU, a thread that neither runs nor waits for a CPU where it has to
    compute waits for a collective: DDP's all-reduce, FSDP's and tensor parallel's gathers. What
    threads that hold the interpreter account for is taken off, and so is what other threads of the
    program waited for a CPU: operators that run on several threads wait for the last of them.
    Between the phases it may wait for anything: there stacks show what lies in torch.distributed.
    """
    whole = evidence.whole
    if ranks_of(evidence) < 2 or whole.resources.gpus:
        return {}
    loss = gil_loss(evidence)
    locked = loss.by_phase if loss is not None else {}
    found = {
        phase: max(0.0, whole.blocked_share(phase) - locked.get(phase, 0.0)) for phase in _COMPUTE
    }
    blocked = sum(found.values())
    part = max(0.0, 1.0 - whole.threads_delay / blocked) if blocked else 0.0
    found = {phase: share * part for phase, share in found.items()}
    stacks = evidence.stacks("main", Phase.PYTHON_BETWEEN)
    between = whole.share(Phase.PYTHON_BETWEEN)
    found[Phase.PYTHON_BETWEEN] = min(
        matching_share(stacks, _is_collective) * between,
        whole.blocked_share(Phase.PYTHON_BETWEEN),
    )
    return found


def _is_collective(node: FlameNode) -> bool:
    return bool(_COLLECTIVES.search(node.file))


def communication(evidence: Evidence) -> Finding | None:
    loss, whole = communication_loss(evidence), evidence.whole
    lost = sum(loss.values())
    if lost <= 0:
        return None
    most = max(loss, key=loss.__getitem__)
    parts = sorted(loss.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{phase} {percent(share)}" for phase, share in parts if share >= 0.005)
    ranks = ranks_of(evidence)
    said = (
        (
            f"The training thread was blocked {duration(lost * whole.step_ns)} of every"
            f" {duration(whole.step_ns)} step while {ranks} ranks exchange data: {shown or most}."
        ),
        "It neither ran nor waited for a CPU then.",
    )
    slow = "Whether the data takes long to send or another rank is late was not measured."
    return phase_finding(
        evidence,
        "communication",
        [most],
        said,
        share=lost,
        missing=(slow,),
        measures={"ranks": float(ranks), "backward_share": loss[Phase.BACKWARD]},
    )
