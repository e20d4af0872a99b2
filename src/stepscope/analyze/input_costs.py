"""What a batch costs the input pipeline, and how the wait for it divides between the causes."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.model.details import Pipeline, StageTime
from stepscope.model.kinds import Signal

__all__ = ["BatchCosts", "batch_costs", "split_wait"]


class BatchCosts(NamedTuple):
    """Milliseconds a batch, as the processes that make and receive it measured them.

    `samples_ms`: wall clock of the dataset; CPU and blocked are parts of it, waiting for a CPU
    counts as CPU. `known`: how much of the dataset's time is told apart, 0 to 1.
    """

    workers: int
    samples_ms: float
    samples_cpu_ms: float
    samples_blocked_ms: float
    known: float
    collate_ms: float = 0.0
    collate_cpu_ms: float = 0.0
    send_ms: float = 0.0
    receive_ms: float = 0.0  # by the training thread itself
    receiver_busy: float = 0.0  # of the time, the thread that receives and pins for it
    tail: float = 0.0  # of the dataset's time: what slow samples take more than a usual one
    slow_ms: float = 0.0  # what a slow sample takes; 0: there are none

    @property
    def made_ms(self) -> float:
        """What a worker takes for a batch."""
        return self.samples_ms + self.collate_ms + self.send_ms


def batch_costs(evidence: Evidence) -> BatchCosts | None:
    """None: the pipeline was not looked into."""
    pipeline, samples = evidence.details.pipeline, evidence.stage("dataset")
    if pipeline is None or samples is None:
        return None
    collate = evidence.stage("collate")
    cpu_ms, blocked_ms = _cpu_and_blocked(samples)
    send, receive = evidence.stage("serialise"), evidence.stage("deserialise", "main")
    return BatchCosts(
        workers=pipeline.workers,
        samples_ms=samples.wall_ms,
        samples_cpu_ms=cpu_ms,
        samples_blocked_ms=blocked_ms,
        known=0.0 if samples.cpu_ms is None else 1.0,
        collate_ms=_wall(collate),
        collate_cpu_ms=0.0 if collate is None else _cpu_and_blocked(collate)[0],
        send_ms=_worked(send),
        receive_ms=_wall(receive),
        receiver_busy=_receiver_busy(evidence),
        tail=_tail(pipeline, samples),
        slow_ms=_slow_ms(pipeline),
    )


def split_wait(costs: BatchCosts, wait_ms: float, batch_ms: float) -> dict[str, float]:
    """The wait for a batch by its causes: "cpu", "blocked", "collate", "ipc", "skew"; sum: 1.

    What the training thread spends on receiving is its own; the rest divides as the time of those
    who make batches does. Workers that could keep up on average, and do not, are held up by slow
    samples: batches come in order. Only a sample that takes longer than training takes for a batch
    can do that.
    """
    received = min(1.0, costs.receive_ms / wait_ms) if wait_ms else 0.0
    if costs.receiver_busy >= Signal.SATURATED:
        received = 1.0
    made_ms = max(costs.made_ms, 1e-9)
    rest = 1.0 - received
    samples = costs.samples_ms / made_ms
    skew = samples * costs.tail
    if costs.workers and costs.tail and wait_ms and costs.slow_ms >= batch_ms - wait_ms:
        keeps_up = max(0.0, costs.made_ms / costs.workers - (batch_ms - wait_ms))
        steady = min(1.0, keeps_up / (wait_ms * rest)) if rest else 1.0
        skew = (1.0 - steady) + steady * skew
    of_samples = max(0.0, costs.samples_cpu_ms + costs.samples_blocked_ms) or 1.0
    usual = samples * (1.0 - costs.tail)  # what is not skew divides over the others
    others = usual + (costs.collate_ms + costs.send_ms) / made_ms
    scale = rest * (1.0 - skew) / others if others > 0 else 0.0
    return {
        "cpu": scale * usual * costs.samples_cpu_ms / of_samples,
        "blocked": scale * usual * costs.samples_blocked_ms / of_samples,
        "collate": scale * costs.collate_ms / made_ms,
        "ipc": scale * costs.send_ms / made_ms + received,
        "skew": rest * skew,
    }


def _wall(stage: StageTime | None) -> float:
    return stage.wall_ms if stage is not None else 0.0


def _worked(send: StageTime | None) -> float:
    """Sending, without waiting before a full pipe for the loop to read."""
    if send is None:
        return 0.0
    return send.wall_ms if send.cpu_ms is None else min(send.cpu_ms, send.wall_ms)


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


def _tail(pipeline: Pipeline, samples: StageTime) -> float:
    """What slow samples take beyond the median, of the dataset's time; 0: no tail to speak of.

    Waiting for a CPU makes a sample slow too: that much of the tail is not its own.
    """
    waited = (samples.run_queue_ms or 0.0) / samples.wall_ms if samples.wall_ms else 0.0
    share, median = (pipeline.tail_share or 0.0) - waited, pipeline.sample_ms.get("p50", 0.0)
    slow = _slow_ms(pipeline)
    if share < Signal.TAIL_SHARE or slow <= median:
        return 0.0
    return share * (1.0 - median / slow)


def _slow_ms(pipeline: Pipeline) -> float:
    slow = pipeline.sample_ms.get("p99", 0.0)
    if slow > 4 * pipeline.sample_ms.get("p50", 0.0):
        return slow
    return pipeline.sample_ms.get("max", 0.0)  # fewer than one in a hundred are slow
