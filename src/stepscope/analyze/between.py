"""Findings about the code between the phases: writing, waiting for the device, or just Python."""

from __future__ import annotations

import re
from typing import NamedTuple

from stepscope.analyze.communication import communication_loss
from stepscope.analyze.evidence import Evidence, matching_share
from stepscope.analyze.machine import gil_loss
from stepscope.analyze.phase_finding import phase_finding
from stepscope.analyze.pulled_input import pulled_input
from stepscope.analyze.words import bytes_text, duration, percent
from stepscope.model import traits
from stepscope.model.details import FlameNode
from stepscope.model.finding import Finding
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["device_sync", "logging_io", "python_in_loop", "saved_by_hand"]

_BETWEEN = [Phase.PYTHON_BETWEEN]
# Files and functions that write for people to read. print and write are C: no frame of their own,
# so the user's function shows them only by its name.
_FILES = re.compile(
    r"(^|[/\\])(logging|tensorboard\w*|tensorflow[/\\]summary|wandb|mlflow|loguru|structlog|tqdm"
    r"|matplotlib|csv\.py|json|rich)([/\\.]|$)"
)
_FUNCTIONS = re.compile(
    r"(^|\.)(log|logs|\w+_logs?|log_(to_)?\w*(metric|scalar|stat|loss|step|row|line|image|hist|file"
    r"|epoch|batch|grad)\w*|print\w*|write\w*|flush|fsync|emit|add_(scalar|histogram|image"
    r"|text|figure)s?|savefig)$"
)
# Saving a model without torch.save, which has a phase of its own.
_SAVING_FILES = re.compile(
    r"(^|[/\\])(pickle|_?compression|gzip|bz2|lzma|zipfile|safetensors|h5py|joblib|_?npyio|_npyio_impl"
    r"|serialization)([/\\.]|$)"
)
_SAVING = re.compile(
    r"(^|\.)(save(_\w*(model|state|checkpoint|weights|best))?|dump|\w*checkpoint\w*|\w*snapshot\w*)$"
)
# Methods of environments of reinforcement learning, whatever library they follow.
_ENVIRONMENT = re.compile(
    r"(Env(s|ironments?)?([A-Z]\w*)?|(^|[._])(env|environment)s?)\.(step|reset)(_async|_wait)?$"
)


class _Between(NamedTuple):
    """How the code between the phases divides, in shares of the loop's time."""

    writing: float
    saving: float
    by_stacks: bool
    written_bytes_per_s: float


def logging_io(evidence: Evidence) -> Finding | None:
    """Writing logs, by the functions that the time between the phases is spent in; or by bytes
    that went to a disk while the thread was blocked."""
    found = _divide(evidence)
    if not found.writing:
        return None
    said = [
        (
            f"{duration(found.writing * evidence.whole.step_ns)} of every"
            f" {duration(evidence.whole.step_ns)} step go to writing logs."
        )
    ]
    if found.by_stacks:
        of = found.writing / evidence.whole.share(Phase.PYTHON_BETWEEN)
        said.append(f"{percent(of)} of the samples between the phases lie in functions that write.")
    if found.written_bytes_per_s >= Signal.WRITTEN_BYTES_PER_S:
        said.append(f"The process wrote {bytes_text(found.written_bytes_per_s)}/s to a disk.")
    missing = () if found.by_stacks else ("Which lines write was not measured.",)
    return phase_finding(
        evidence,
        "logging-io",
        _BETWEEN,
        said,
        share=found.writing,
        separated=1.0 if found.by_stacks else 0.0,
        missing=missing,
        measures={"written_bytes_per_s": found.written_bytes_per_s},
    )


def python_in_loop(evidence: Evidence) -> Finding | None:
    """What is left of the time between the phases when writing, waiting for a GPU, for the
    interpreter's lock and for other ranks are taken off."""
    whole = evidence.whole
    found = _divide(evidence)
    locked = gil_loss(evidence)
    share = (
        whole.share(Phase.PYTHON_BETWEEN)
        - found.writing
        - found.saving
        - _waited_for_device(evidence)
    )
    share -= locked.by_phase[Phase.PYTHON_BETWEEN] if locked is not None else 0.0
    share -= communication_loss(evidence).get(Phase.PYTHON_BETWEEN, 0.0)
    pulled = pulled_input(evidence)
    share -= pulled.share if pulled is not None else 0.0
    if share <= 0:
        return None
    said = [
        (
            f"{duration(share * whole.step_ns)} of every {duration(whole.step_ns)} step lie between"
            " known activities."
        )
    ]
    busy = whole.cpu_share(Phase.PYTHON_BETWEEN)
    measures = {}
    if busy is not None:
        measures["busy_share"] = busy
        did = "computed" if busy >= 0.5 else "was blocked (sleeping, waiting for a file or a lock)"
        said.append(f"{percent(max(busy, 1 - busy))} of that time the training thread {did}.")
    stacks = evidence.stacks("main", Phase.PYTHON_BETWEEN)
    environments = matching_share(stacks, _steps_environment)
    if environments:
        measures["environment_share"] = environments
        said.append(f"{percent(environments)} of it lies in steps of environments.")
    seen = evidence.user_code("main", Phase.PYTHON_BETWEEN) is not None
    missing = () if seen else ("Which lines of the program these are was not measured.",)
    return phase_finding(
        evidence,
        "python-in-loop",
        _BETWEEN,
        said,
        share=share,
        missing=missing,
        measures=measures,
    )


def device_sync(evidence: Evidence) -> Finding | None:
    """A GPU that runs empty because the host asked for a value in every step. Without a GPU there
    is nothing to wait for."""
    share = _waited_for_device(evidence)
    if not share:
        return None
    calls = float(evidence.trait(traits.ITEM_CALLS))
    idle = 1.0 - _gpu_busy(evidence)
    said = [
        (
            f"The program asks for a value of a tensor {calls:g} times a step (item() and its"
            f" like); GPUs were idle {percent(idle)} of the time."
        ),
    ]
    return phase_finding(
        evidence,
        "device-sync",
        _BETWEEN,
        said,
        share=share,
        separated=min(1.0, idle),
        missing=("Which of the calls waited longest was not measured.",),
        measures={"item_calls": calls, "gpu_idle_share": idle},
    )


def _waited_for_device(evidence: Evidence) -> float:
    """Blocked between the phases, with values asked for and a GPU that had gaps; 0: no such."""
    calls = evidence.trait(traits.ITEM_CALLS)
    if not calls or not evidence.whole.resources.gpus:
        return 0.0
    busy = _gpu_busy(evidence)
    ran = evidence.whole.cpu_share(Phase.PYTHON_BETWEEN)
    if busy >= Signal.GPU_WAITS_FOR_HOST or ran is None:
        return 0.0
    blocked = evidence.whole.share(Phase.PYTHON_BETWEEN) * (1.0 - ran)
    return min(blocked, 1.0 - busy)


def _gpu_busy(evidence: Evidence) -> float:
    """1 where it was not measured: a gap is not assumed."""
    gpus = evidence.whole.resources.gpus
    busy = [gpu.busy_share for gpu in gpus if gpu.busy_share is not None]
    return sum(busy) / len(busy) if busy else 1.0


def _divide(evidence: Evidence) -> _Between:
    whole = evidence.whole
    share = whole.share(Phase.PYTHON_BETWEEN)
    written = _written(evidence)
    left = share - _waited_for_device(evidence)
    stacks = evidence.stacks("main", Phase.PYTHON_BETWEEN)
    saving = min(left, matching_share(stacks, _saves) * share)
    writing = matching_share(stacks, lambda node: _writes(node) and not _saves(node)) * share
    if writing or saving:
        return _Between(min(left - saving, writing), saving, True, written)
    ran = whole.cpu_share(Phase.PYTHON_BETWEEN)
    if written < Signal.WRITTEN_BYTES_PER_S or ran is None or ran >= 0.5:
        return _Between(0.0, 0.0, False, written)
    return _Between(min(left, share * (1.0 - ran)), 0.0, False, written)


def saved_by_hand(evidence: Evidence) -> float:
    """Share of the loop's time that goes to saving without torch.save."""
    return _divide(evidence).saving


def _writes(node: FlameNode) -> bool:
    return bool(_FILES.search(node.file) or _FUNCTIONS.search(node.name))


def _steps_environment(node: FlameNode) -> bool:
    return bool(_ENVIRONMENT.search(node.name))


def _saves(node: FlameNode) -> bool:
    return bool(_SAVING_FILES.search(node.file) or _SAVING.search(node.name))


def _written(evidence: Evidence) -> float:
    """Bytes a second to a disk, without what checkpoints explain."""
    whole = evidence.whole
    written = whole.resources.program.write_bytes_per_s or 0.0
    saved = sum(loop.saved_bytes for loop in whole.loops)
    wall_s = whole.wall_ns / 1e9 / max(1, len(whole.loops))
    return max(0.0, written - saved / wall_s) if wall_s else 0.0
