"""Finding → changes that need no edit: what `stepscope tune` tries, with what each should gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from stepscope.advise import loader_changes
from stepscope.advise.gain import between
from stepscope.model.change import Change
from stepscope.model.finding import Finding

__all__ = ["asked_for", "changes_for"]

# How much of its cost a change takes away, at least and at most, where nothing measured says so.
_COLLECTING: Final = (0.95, 1.0)
_SAVING: Final = (0.6, 0.95)
_LOGGING: Final = (0.7, 1.0)


def changes_for(finding: Finding) -> tuple[Change, ...]:
    """The most promising first; those whose gain is not known last."""
    entry = _CATALOGUE.get(finding.kind)
    found = list(entry(finding)) if entry is not None else []
    return tuple(sorted(found, key=lambda change: -(change.predicted or 0.0)))


def _gc(finding: Finding) -> Iterator[Change]:
    yield Change(
        "gc",
        "Collect garbage at chosen steps only",
        {"freeze": True},
        expected_speedup=between(finding, *_COLLECTING),
    )


def _saving(finding: Finding) -> Iterator[Change]:
    yield Change(
        "saving",
        "Write checkpoints in the background",
        expected_speedup=between(finding, *_SAVING),
    )


def _logging(finding: Finding) -> Iterator[Change]:
    yield Change(
        "logging",
        "Flush logs once a second",
        {"seconds": 1.0},
        expected_speedup=between(finding, *_LOGGING),
    )


def _blocked(finding: Finding) -> Iterator[Change]:
    """Where the thread mostly waited, it may have been for the disk: os.fsync has no frame of its
    own, so stacks do not tell. Trying it does, in one run."""
    if finding.measures.get("busy_share", 1.0) < 0.5:
        yield Change("logging", "Flush logs once a second", {"seconds": 1.0})


def _threads(finding: Finding) -> Iterator[Change]:
    cpus, ranks = finding.measures.get("cpu_count", 1.0), finding.measures.get("ranks", 1.0)
    threads = max(1, int(cpus // ranks))
    for count in dict.fromkeys((threads, max(1, threads // 2))):
        yield Change("threads", f"Compute with {count} threads at most", {"torch": count})


def _optimizer(finding: Finding) -> Iterator[Change]:
    if finding.measures.get("one_by_one") == 0.0:
        return
    left = finding.measures.get("fused_ratio")
    saved = None if left is None else max(0.0, 1.0 - left)
    expected = None if saved is None else between(finding, saved, saved)
    yield Change("optimizer", "Update all parameters at once", {"fused": True}, expected)
    yield Change("optimizer", "Update parameters in groups", {"foreach": True})


def _layout(finding: Finding) -> Iterator[Change]:
    yield Change("layout", "Store images pixel by pixel", {}, _replayed(finding))


def _precision(finding: Finding) -> Iterator[Change]:
    if finding.measures.get("bfloat16"):
        yield Change(
            "autocast",
            "Compute in bfloat16",
            {"dtype": "bfloat16"},
            _replayed(finding),
            alters="precision",
        )
        return
    yield Change(
        "float32", "Compute in single precision", {}, _replayed(finding), alters="precision"
    )


def _denormals(finding: Finding) -> Iterator[Change]:
    left, flushed = finding.measures.get("ratio", 0.0), finding.measures.get("flush_ratio")
    helps = 0.0
    if flushed is not None and left < 1.0:
        helps = min(1.0, max(0.0, (1.0 - flushed) / (1.0 - left)))
    yield Change(
        "denormals",
        "Treat numbers that are too small as zero",
        {},
        None if flushed is None else between(finding, helps, helps),
        alters="denormals",
    )


def _replayed(finding: Finding) -> tuple[float, float] | None:
    """What running the step's own operators again saved; None: they were not run again."""
    return between(finding, 1.0) if "ratio" in finding.measures else None


def _recompute(finding: Finding) -> Iterator[Change]:
    measures = finding.measures
    removable, all_ms = measures.get("removable_ms"), measures.get("recompute_ms")
    if removable is None or not all_ms or removable < 0.5 * all_ms:
        return  # memory asks for it, or nobody knows
    part = min(1.0, removable / all_ms)
    yield Change(
        "recompute",
        "Keep activations instead of recomputing them",
        {},
        between(finding, part, part),
    )


def _host_overhead(finding: Finding) -> Iterator[Change]:
    if finding.measures.get("compiled") != 1.0:
        yield Change("compile", "Compile the model", {})
    yield Change(
        "batch",
        "Twice as many samples a step",
        {"factor": 2},
        alters="batch-size",
        samples=2.0,
    )


def asked_for(name: str, cpus: int) -> Change | None:
    """A change that the user wants to be tried though no finding suggests it; None: there is no
    setting of it that suits every program."""
    return next((change for change in _anyhow(cpus) if change.name == name), None)


def _anyhow(cpus: int) -> Iterator[Change]:
    yield Change("nothing", "Change nothing", {})
    yield Change("compile", "Compile the model", {})
    yield Change("gc", "Collect garbage at chosen steps only", {"freeze": True})
    yield Change("optimizer", "Update all parameters at once", {"fused": True})
    yield Change("zero-grad", "Drop gradients instead of zeroing them", {})
    yield Change("threads", f"Compute with {cpus} threads at most", {"torch": cpus})
    yield Change("saving", "Write checkpoints in the background", {})
    yield Change("logging", "Flush logs once a second", {"seconds": 1.0})
    yield Change("layout", "Store images pixel by pixel", {})
    yield Change("batched", "Index the whole batch at once", {})
    yield Change("cache", "Make each sample once and keep it", {"where": "memory"})
    yield Change("packing", "Send batches through shared memory, in one piece", {})
    yield Change("vectorise", "Transform the samples of a batch at once", {})
    yield Change("recompute", "Keep activations instead of recomputing them", {})
    yield Change("non-blocking", "Copy while the device computes", {})
    yield Change(
        "loader",
        f"Let {cpus} workers prepare batches",
        {"num_workers": cpus, "persistent_workers": True},
    )
    yield Change("float32", "Compute in single precision", {}, alters="precision")
    yield Change("autocast", "Compute in bfloat16", {"dtype": "bfloat16"}, alters="precision")
    yield Change("denormals", "Treat numbers that are too small as zero", {}, alters="denormals")
    yield Change("fetch-threads", "Fetch 4 samples at once", {"threads": 4}, alters="threads")
    yield Change(
        "batch", "Twice as many samples a step", {"factor": 2}, alters="batch-size", samples=2.0
    )


_CATALOGUE: Final[dict[str, Callable[[Finding], Iterator[Change]]]] = {
    "input-cpu": loader_changes.making_batches,
    "input-io": loader_changes.making_batches,
    "input-network": loader_changes.making_batches,
    "input-collate": loader_changes.making_batches,
    "input-ipc": loader_changes.sending,
    "input-worker-startup": loader_changes.starting_workers,
    "input-skew": loader_changes.skewed,
    "transfer": loader_changes.transferring,
    "gc": _gc,
    "checkpoint-save": _saving,
    "logging-io": _logging,
    "python-in-loop": _blocked,
    "oversubscription": _threads,
    "optimizer": _optimizer,
    "layout": _layout,
    "precision": _precision,
    "denormals": _denormals,
    "recompute": _recompute,
    "host-overhead": _host_overhead,
}
