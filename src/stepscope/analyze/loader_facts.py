"""What is known of the loader that training waited for most, in the words of findings."""

from __future__ import annotations

from stepscope.analyze.evidence import Evidence, UserCode
from stepscope.analyze.loop import LoaderUse
from stepscope.analyze.whole import Whole
from stepscope.analyze.words import duration
from stepscope.model import names
from stepscope.model.details import SLOW_BATCHES
from stepscope.model.finding import Location
from stepscope.model.phases import Phase

__all__ = [
    "MAKING_SAMPLES",
    "loader_location",
    "loader_measures",
    "loader_workers",
    "sample_code",
    "sample_location",
    "slow_location",
    "startup_location",
    "wait_text",
]

MAKING_SAMPLES = (names.SAMPLE, names.TRANSFORM, names.WORKER_FETCH)
# The start of a worker is known as such only when it is over: until then no span is open in it.
_STARTING = (names.WORKER, names.WORKER_START)


def loader_workers(use: LoaderUse | None) -> int | None:
    """None: the settings of the loader were not seen."""
    workers = use.settings.get("workers") if use is not None else None
    return workers if isinstance(workers, int) else None


def loader_location(use: LoaderUse | None) -> Location:
    """Where the loader's samples are made, by its dataset's class."""
    if use is None:
        return Location()
    settings = use.settings
    return Location(settings.get("file"), settings.get("line"), settings.get("function"))


def sample_code(evidence: Evidence) -> UserCode | None:
    """Where making samples spends most; None: no stacks show it."""
    if loader_workers(evidence.whole.loader):
        return evidence.user_code("worker", *MAKING_SAMPLES)
    return evidence.user_code("main", Phase.INPUT_WAIT)


def sample_location(evidence: Evidence) -> Location:
    """The line that making samples spends most in; without stacks, the dataset's method."""
    code = sample_code(evidence)
    return code.location if code is not None else loader_location(evidence.whole.loader)


def slow_location(evidence: Evidence) -> Location:
    """The line that batches which take far longer than others spend most in; without stacks of
    such, where samples are made."""
    code = evidence.user_code("worker", SLOW_BATCHES)
    return code.location if code is not None else sample_location(evidence)


def startup_location(evidence: Evidence, startup_ns: float) -> Location:
    """What workers do of the user's at their start (worker_init_fn, imports, unpickling), if that
    makes half of it; else the line of the loop that waits for them."""
    workers = loader_workers(evidence.whole.loader) or 1
    theirs = evidence.user_code("worker", *_STARTING)
    if theirs is not None:
        in_all_ms = theirs.share * sum(one.ms for one in evidence.stacks("worker", *_STARTING))
        if 2 * in_all_ms / workers >= startup_ns / 1e6:
            return theirs.location
    waits = evidence.user_code("main", Phase.INPUT_WAIT)
    return waits.location if waits is not None else loader_location(evidence.whole.loader)


def wait_text(whole: Whole) -> str:
    waited = duration(whole.share(Phase.INPUT_WAIT) * whole.step_ns)
    return f"The training thread waited {waited} of every {duration(whole.step_ns)} step for data"


def loader_measures(whole: Whole, workers: int | None, busy: float | None) -> dict[str, float]:
    """What the catalogue needs to say what other settings would give."""
    resources = whole.resources
    found = {
        "step_ms": whole.step_ns / 1e6,
        "input_ms": whole.share(Phase.INPUT_WAIT) * whole.step_ns / 1e6,
        "batches_per_step": whole.batches / whole.steps if whole.steps else 0.0,
        "ranks": float(len(whole.loops)),
        "workers": workers,
        "busy_share": busy,
        "cpu_count": resources.cpu_count,
        "program_cpu_cores": resources.program.cpu_cores,
        "children_cpu_cores": resources.children.cpu_cores,
        "children_run_delay_cores": resources.children.run_delay_cores,
    }
    settings = whole.loader.settings if whole.loader is not None else {}
    if whole.loader is not None:
        found["passes"] = whole.loader.iterations
    found |= {
        "iterable": settings.get("iterable"),
        "persistent_workers": settings.get("persistent_workers"),
        "prefetch_factor": settings.get("prefetch_factor"),
    }
    return {name: float(value) for name, value in found.items() if value is not None}
