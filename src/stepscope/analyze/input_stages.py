"""Findings about the input where the pipeline was looked into: one for each cause of the wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.input_costs import BatchCosts, split_wait, without_fragments
from stepscope.analyze.judge import confidence, severity
from stepscope.analyze.loader_facts import (
    loader_location,
    loader_measures,
    sample_code,
    sample_location,
    slow_location,
    wait_text,
)
from stepscope.analyze.words import bytes_text, duration, percent, plural
from stepscope.model import names
from stepscope.model.details import Pipeline
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS, Signal
from stepscope.model.phases import Phase

__all__ = ["stage_findings"]


class _Cause(NamedTuple):
    kind: str
    separated: float  # from its rivals, 0 to 1
    evidence: tuple[str, ...]
    location: Location
    missing: tuple[str, ...] = ()


def stage_findings(evidence: Evidence, costs: BatchCosts, share: float) -> Iterator[Finding]:
    """`share`: the wait, of the loop's time. The findings' shares add up to it."""
    whole = evidence.whole
    a_step = max(1e-9, whole.batches / whole.steps) if whole.steps else 1.0
    batch_ms = whole.step_ns / 1e6 / a_step
    own_ms = batch_ms * (1.0 - whole.share(Phase.INPUT_WAIT))
    parts = without_fragments(split_wait(costs, share * batch_ms, own_ms), share)
    made = _made_sentence(costs)
    for name, describe in (
        ("cpu", _cpu),
        ("blocked", _blocked),
        ("collate", _collate),
        ("ipc", _ipc),
        ("skew", _skew),
    ):
        if parts[name] > 0:
            yield _finding(evidence, costs, describe(evidence, costs), share * parts[name], made)


def _finding(
    evidence: Evidence, costs: BatchCosts, cause: _Cause, share: float, made: str
) -> Finding:
    whole = evidence.whole
    busy = costs.samples_cpu_ms / costs.samples_ms if costs.samples_ms else None
    how = f" from {plural(costs.workers, 'worker')}" if costs.workers else " (num_workers=0)"
    return Finding(
        kind=cause.kind,
        title=KINDS[cause.kind].title(share),
        share=share,
        severity=severity(cause.kind, share),
        confidence=confidence(whole, Phase.INPUT_WAIT, separated=cause.separated),
        evidence=(f"{wait_text(whole)}{how}.", made, *cause.evidence),
        missing=cause.missing,
        location=cause.location,
        measures=loader_measures(whole, costs.workers, busy) | _costs_measures(evidence, costs),
    )


def _made_sentence(costs: BatchCosts) -> str:
    who = "a worker" if costs.workers else "the training thread"
    parts = [f"{_ms(costs.samples_ms)} for its samples", f"{_ms(costs.collate_ms)} to collate"]
    if costs.workers:
        parts.append(f"{_ms(costs.send_ms)} to send")
    return f"A batch takes {who} {_ms(costs.made_ms)}: {', '.join(parts)}."


def _cpu(evidence: Evidence, costs: BatchCosts) -> _Cause:
    of = costs.samples_cpu_ms / costs.samples_ms if costs.samples_ms else 0.0
    said = [f"{percent(of)} of the time for its samples goes to computing."]
    said += [*_transform(evidence), *_line(evidence)]
    missing = () if costs.known else ("Computing and waiting were not told apart.",)
    return _Cause("input-cpu", costs.known, tuple(said), sample_location(evidence), missing)


def _blocked(evidence: Evidence, costs: BatchCosts) -> _Cause:
    source = costs.source
    said = f"Making a batch is blocked {_ms(costs.samples_blocked_ms)}{source.did}."
    return _Cause(
        source.kind,
        source.separated,
        (said, *_line(evidence), *source.evidence),
        sample_location(evidence),
        source.missing,
    )


def _collate(evidence: Evidence, costs: BatchCosts) -> _Cause:
    code = evidence.user_code("worker", names.COLLATE) if costs.workers else None
    if not costs.workers and costs.collate_ms > costs.samples_ms:
        code = evidence.user_code("main", Phase.INPUT_WAIT)  # most of which is collating
    said = f"Putting a batch together takes {percent(costs.collate_ms / costs.made_ms)} of that."
    place = code.location if code is not None else loader_location(evidence.whole.loader)
    missing = () if code is not None else ("Which line of the collate function was not measured.",)
    return _Cause("input-collate", 1.0, (said,), place, missing)


def _ipc(evidence: Evidence, costs: BatchCosts) -> _Cause:
    pipeline, send = evidence.details.pipeline, costs.send_ms
    size = pipeline.bytes_per_batch if pipeline is not None else None
    what = f"a batch of {bytes_text(size)}" if size else "a batch"
    said = [f"Sending {what} takes {_ms(send)}, receiving it {_ms(costs.receive_ms)}."]
    if costs.receiver_busy >= Signal.SATURATED:
        busy = percent(min(1.0, costs.receiver_busy))
        said.append(f"The thread that receives and pins batches was busy {busy} of the time.")
    return _Cause("input-ipc", 1.0, tuple(said), loader_location(evidence.whole.loader))


def _skew(evidence: Evidence, costs: BatchCosts) -> _Cause:
    pipeline = evidence.details.pipeline
    assert pipeline is not None
    what, share, times = _slow(pipeline)
    said = [
        (
            f"{percent(share)} of the time for {what} goes to those beyond 4 times the median of"
            f" {_ms(times.get('p50', 0.0))}; the slowest took {_ms(times.get('max', 0.0))}."
        ),
        *_slowest(pipeline),
        *_line(evidence),
    ]
    if costs.workers and pipeline.worker_idle_share:
        said.append(f"Workers were idle {percent(pipeline.worker_idle_share)} of their time.")
    beyond = 1.0 - Signal.TAIL_SHARE / max(share, Signal.TAIL_SHARE)
    return _Cause("input-skew", beyond, tuple(said), slow_location(evidence))


def _slow(pipeline: Pipeline) -> tuple[str, float, Mapping[str, float]]:
    """Samples, or batches where the slow samples were not among those looked at."""
    samples, batches = pipeline.tail_share or 0.0, pipeline.slow_batch_share or 0.0
    if batches > samples:
        return "batches", batches, pipeline.batch_ms
    return "samples", samples, pipeline.sample_ms


def _slowest(pipeline: Pipeline) -> Iterator[str]:
    known = [sample for sample in pipeline.slow_samples if sample.item >= 0][:5]
    if known:
        listed = ", ".join(f"{sample.item} ({_ms(sample.ms)})" for sample in known)
        yield f"The slowest samples by index: {listed}."


def _transform(evidence: Evidence) -> Iterator[str]:
    pipeline = evidence.details.pipeline
    transforms = pipeline.transforms if pipeline is not None else ()
    if transforms:
        dearest = max(transforms, key=lambda one: one.wall_ms)
        yield (
            f"The dearest of {plural(len(transforms), 'transform')} is {dearest.name}:"
            f" {_ms(dearest.wall_ms)} a batch."
        )


def _line(evidence: Evidence) -> Iterator[str]:
    code = sample_code(evidence)
    if code is not None:
        place = code.location
        yield f"{percent(code.share)} of it lies in {place.function}, {place.file}:{place.line}."


def _costs_measures(evidence: Evidence, costs: BatchCosts) -> dict[str, float]:
    """What the model of the loader needs (advise/simulate.py), by batch."""
    pipeline = evidence.details.pipeline
    assert pipeline is not None
    what, tail_share, slow = _slow(pipeline)
    times = {f"sample_{name}_ms": value for name, value in pipeline.sample_ms.items()}
    if what == "batches":
        times["sample_max_ms"] = slow.get("max", 0.0)  # all of it but a usual batch is one sample's
    samples = pipeline.samples / pipeline.batches if pipeline.batches else 0.0
    return times | {
        "worker_cpu_ms": _on_cpu(evidence, costs),
        "worker_blocked_ms": costs.samples_blocked_ms + costs.collate_ms - costs.collate_cpu_ms,
        "serialise_ms": costs.send_ms,
        "unpickle_ms": costs.receive_ms,
        "samples_per_batch": samples,
        "tail_share": tail_share,
    }


def _on_cpu(evidence: Evidence, costs: BatchCosts) -> float:
    """What a batch needs of a CPU: without waiting for one, which other settings change."""
    stages = (evidence.stage("dataset"), evidence.stage("collate"))
    known = [stage.cpu_ms for stage in stages if stage is not None and stage.cpu_ms is not None]
    return sum(known) if costs.known else costs.samples_cpu_ms + costs.collate_cpu_ms


def _ms(ms: float) -> str:
    return duration(ms * 1e6)
