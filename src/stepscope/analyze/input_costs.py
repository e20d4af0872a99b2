"""What a batch costs the input pipeline, and how the wait for it divides between the causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.input_sources import Source, sample_source
from stepscope.model.details import Pipeline, StageTime
from stepscope.model.kinds import KINDS, Signal

__all__ = ["BatchCosts", "batch_costs", "split_wait", "without_fragments"]

_MODERATE = KINDS["input-cpu"].moderate_share


class BatchCosts(NamedTuple):
    """Milliseconds a batch, as the processes that make and receive it measured them.

    `samples_ms`: wall clock of the dataset; CPU and blocked are parts of it, waiting for a CPU
    (the queue) counts as CPU. `known`: how much of the dataset's time is told apart, 0 to 1.
    """

    workers: int
    samples_ms: float
    samples_cpu_ms: float
    samples_blocked_ms: float
    samples_queue_ms: float
    known: float
    source: Source  # what they are blocked by
    collate_ms: float = 0.0
    collate_cpu_ms: float = 0.0
    send_ms: float = 0.0
    receive_ms: float = 0.0  # by the training thread itself
    receive_cpu_ms: float = 0.0
    receiver_busy: float = 0.0  # of the time, the thread that receives and pins for it
    tail: float = 0.0  # of the dataset's time: what slow samples take more than a usual one
    slow_ms: float = 0.0  # what a slow sample takes; 0: there are none

    @property
    def made_ms(self) -> float:
        """What a worker takes for a batch."""
        return self.samples_ms + self.collate_ms + self.send_ms

    @property
    def fetched(self) -> float:
        """Of the dataset's time: what goes to where its data come from. Who waits for a CPU, after
        an answer of the disk as after a computation, is held up by others: that divides alike."""
        running_ms = self.samples_ms - self.samples_queue_ms
        fetched_ms = self.samples_blocked_ms + self.source.cpu_ms
        return min(1.0, fetched_ms / running_ms) if running_ms > 0 else 0.0


def batch_costs(evidence: Evidence) -> BatchCosts | None:
    """None: the pipeline was not looked into."""
    pipeline, samples = evidence.details.pipeline, evidence.stage("dataset")
    if pipeline is None or samples is None:
        return None
    collate = evidence.stage("collate")
    cpu_ms, blocked_ms = _cpu_and_blocked(samples)
    send, receive = evidence.stage("serialise"), evidence.stage("deserialise", "main")
    tail = _tail(pipeline, samples)
    return BatchCosts(
        workers=pipeline.workers,
        samples_ms=samples.wall_ms,
        samples_cpu_ms=cpu_ms,
        samples_blocked_ms=blocked_ms,
        samples_queue_ms=min(samples.run_queue_ms or 0.0, cpu_ms),
        known=0.0 if samples.cpu_ms is None else 1.0,
        source=sample_source(evidence, samples, blocked_ms),
        collate_ms=_wall(collate),
        collate_cpu_ms=0.0 if collate is None else _cpu_and_blocked(collate)[0],
        send_ms=_worked(send),
        receive_ms=_wall(receive),
        receive_cpu_ms=_worked(receive),
        receiver_busy=_receiver_busy(evidence),
        tail=tail.share,
        slow_ms=tail.slow_ms,
    )


def split_wait(costs: BatchCosts, wait_ms: float, own_ms: float) -> dict[str, float]:
    """The wait for a batch by its causes: "cpu", "blocked", "collate", "ipc", "skew"; sum: 1.

    `own_ms`: what training takes for a batch besides. What workers take longer than that, however
    evenly their work comes, goes to what would end it, the largest first. Of the rest, what the
    training thread spends on receiving is its own. Workers that could keep up on average, and do
    not, are held up by slow samples: batches come in order. Only a sample that takes longer than
    training takes for a batch can do that.
    """
    received, late = 0.0, 0.0
    if costs.workers and wait_ms:
        lacking_ms = costs.made_ms / costs.workers - own_ms
        steady = min(1.0, max(0.0, lacking_ms / wait_ms))
        held_up = costs.tail > 0 and costs.slow_ms >= own_ms
        receive_ms = _receiving_ms(costs, wait_ms + own_ms, held_up)
        received = min(1.0 - steady, receive_ms / wait_ms)
        if costs.receiver_busy >= Signal.SATURATED:
            steady, received = 0.0, 1.0
        late = 1.0 - steady - received if held_up else 0.0
    usual_ms = costs.samples_ms * (1.0 - costs.tail)
    made = {
        "cpu": usual_ms * (1.0 - costs.fetched),
        "blocked": usual_ms * costs.fetched,
        "collate": costs.collate_ms,
        "ipc": costs.send_ms,
        "skew": costs.samples_ms * costs.tail,
    }
    parts = _by_what_ends_it(made, own_ms * costs.workers)
    rest = 1.0 - received - late
    parts = {name: rest * part for name, part in parts.items()}
    return parts | {"ipc": parts["ipc"] + received, "skew": parts["skew"] + late}


def _by_what_ends_it(made: Mapping[str, float], free_ms: float) -> dict[str, float]:
    """How a wait divides between the parts of the work behind it, of which `free_ms` cost nothing:
    the work is done while training computes. Each part has what the wait is shorter without it and
    those before it, the largest first. Sum: 1, or all 0 where there is no work.
    """
    left_ms = sum(made.values())
    if left_ms <= free_ms:
        free_ms = 0.0  # it should not wait at all: they all have their part in it
    lacking_ms = max(left_ms - free_ms, 1e-9)
    parts = {}
    for name in sorted(made, key=lambda name: -made[name]):
        before_ms = max(0.0, left_ms - free_ms)
        left_ms -= made[name]
        parts[name] = (before_ms - max(0.0, left_ms - free_ms)) / lacking_ms
    return parts


def without_fragments(parts: dict[str, float], share: float) -> dict[str, float]:
    """The same wait, where one cause makes nearly all of it and no other would be named: that one
    has it whole, since the others alone would not make the loop wait."""
    first = max(parts, key=lambda name: parts[name])
    others = [part for name, part in parts.items() if name != first]
    whole = sum(parts.values())
    if parts[first] < Signal.DOMINANT * whole or max(others) * share >= _MODERATE:
        return parts
    return dict.fromkeys(parts, 0.0) | {first: whole}


def _receiving_ms(costs: BatchCosts, batch_ms: float, held_up: bool) -> float:
    """What the training thread takes to receive. Off the CPU it waits for a thread of the worker to
    hand over its tensors, and that one waits while the worker computes: for a slow sample, say."""
    if held_up:
        return costs.receive_cpu_ms
    computing_ms = costs.samples_cpu_ms + costs.collate_cpu_ms
    busy = min(1.0, computing_ms / costs.workers / batch_ms)
    waited_ms = max(0.0, costs.receive_ms - costs.receive_cpu_ms)
    return costs.receive_cpu_ms + waited_ms * (1.0 - busy)


def _wall(stage: StageTime | None) -> float:
    return stage.wall_ms if stage is not None else 0.0


def _worked(stage: StageTime | None) -> float:
    """Sending and receiving, without waiting for the other end of the pipe."""
    if stage is None:
        return 0.0
    return stage.wall_ms if stage.cpu_ms is None else min(stage.cpu_ms, stage.wall_ms)


def _cpu_and_blocked(stage: StageTime) -> tuple[float, float]:
    """(CPU and waiting for one, blocked). All of it CPU where that was not measured."""
    if stage.cpu_ms is None:
        return stage.wall_ms, 0.0
    blocked = stage.blocked_ms
    if blocked is None:
        blocked = max(0.0, stage.wall_ms - stage.cpu_ms - (stage.run_queue_ms or 0.0))
    return max(0.0, stage.wall_ms - blocked), min(blocked, stage.wall_ms)


def _receiver_busy(evidence: Evidence) -> float:
    found = (evidence.stage("deserialise", "pin"), evidence.stage("pin", "pin"))
    return sum(stage.utilisation or 0.0 for stage in found if stage is not None)


class _Tail(NamedTuple):
    share: float = 0.0
    slow_ms: float = 0.0


def _tail(pipeline: Pipeline, samples: StageTime) -> _Tail:
    """What slow samples take beyond the median, of the dataset's time; 0: no tail to speak of.

    Short samples are thinned out, and a few slow ones are missed; their batches never are.
    Waiting for a CPU makes a sample slow too: that much of the tail is not its own.
    """
    waited = (samples.run_queue_ms or 0.0) / samples.wall_ms if samples.wall_ms else 0.0
    of_samples, median = (pipeline.tail_share or 0.0) - waited, pipeline.sample_ms.get("p50", 0.0)
    of_batches = (pipeline.slow_batch_share or 0.0) - waited
    found = [_Tail()]
    slow_ms = _slow_ms(pipeline.sample_ms)
    if of_samples >= Signal.TAIL_SHARE and slow_ms > median:
        found.append(_Tail(of_samples * (1.0 - median / slow_ms), slow_ms))
    if of_batches >= Signal.TAIL_SHARE:
        found.append(_Tail(of_batches, _slow_ms(pipeline.batch_ms)))
    return _Tail(max(one.share for one in found), max(one.slow_ms for one in found))


def _slow_ms(times: Mapping[str, float]) -> float:
    slow = times.get("p99", 0.0)
    if slow > 4 * times.get("p50", 0.0):
        return slow
    return times.get("max", 0.0)  # fewer than one in a hundred are slow
