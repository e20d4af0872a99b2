"""Evidence made by hand: loops of 100 ms steps, pipelines, stacks, layers and operators."""

from __future__ import annotations

import json

from stepscope.analyze.findings import findings
from stepscope.analyze.loop import Loop
from stepscope.analyze.resources import Resources
from stepscope.model import names
from stepscope.model.details import (
    Details,
    FlameNode,
    HotLine,
    OpTime,
    PhaseStacks,
    Pipeline,
    StageTime,
)
from stepscope.model.finding import Finding, Location
from tests.unit.analyze.made import Event, backward, forward, iter_, loop, mark, next_, optimizer


def trained(
    workers: int = 0,
    *,
    wait: float = 1.0,
    gap: float = 0.0,
    optimizer_ms: float = 5.0,
    ran: float = 1.0,
    gap_ran: float = 1.0,
    steps: int = 50,
) -> Loop:
    """Steps with `wait` ms for data, 100 of computation and `gap` after it.

    `ran`, `gap_ran`: how much of computation and gap the thread was on a CPU.
    """
    settings = {"workers": workers, "file": "data.py", "line": 12, "function": "D.__getitem__"}
    events: list[Event] = [iter_(5, 10), mark(names.LOADER, 1, 1, json.dumps(settings))]
    at, cpu = 10.0, 10.0
    model = 100 - optimizer_ms
    for _ in range(steps):
        events.append(next_(at, at + wait, cpu=(cpu, cpu)))
        at += wait
        for make, took in ((forward, 40.0), (backward, model - 40), (optimizer, optimizer_ms)):
            events.append(make(at, at + took, cpu=(cpu, cpu + took * ran)))
            at, cpu = at + took, cpu + took * ran
        at, cpu = at + gap, cpu + gap * gap_ran
    return loop(events)


def pipeline(workers: int, *stages: StageTime, **more: object) -> Details:
    return Details(pipeline=Pipeline(workers, 50, stages, **more))  # type: ignore[arg-type]


def dataset(wall: float, cpu: float, queue: float = 0.0) -> StageTime:
    return StageTime("dataset", "worker", wall, cpu, queue, wall - cpu - queue)


def stage(name: str, wall: float, where: str = "worker") -> StageTime:
    return StageTime(name, where, wall, wall, 0.0, 0.0)


def line(file: str, number: int, function: str, share: float) -> HotLine:
    return HotLine(Location(file, number, function), share, share, 1.0, 100)


def stacks(
    phase: str, *lines: HotLine, where: str = "main", flame: FlameNode | None = None
) -> PhaseStacks:
    return PhaseStacks(phase, where, 1000.0, 100, lines, flame)


def node(name: str, file: str, ms: float, *children: FlameNode) -> FlameNode:
    return FlameNode(name, file, 1, ms, children)


def op(name: str, self_ms: float, calls: float = 10.0) -> OpTime:
    return OpTime(name, calls, self_ms, self_ms / 100)


def found(
    made: Loop, details: Details | None = None, resources: Resources | None = None
) -> dict[str, Finding]:
    """By kind. One of a kind at most."""
    everything = findings([made], resources or Resources(), details)
    by_kind = {finding.kind: finding for finding in everything}
    assert len(by_kind) == len(everything)
    return by_kind
