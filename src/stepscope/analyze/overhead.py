"""What stepscope itself cost and lost, from what its processes recorded about themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepscope.analyze.words import duration, percent, plural
from stepscope.model import names
from stepscope.model.event import Batch

__all__ = ["OwnCost", "OwnCostFold", "overhead", "together"]

FAILURES_KEPT = 20
_SAMPLED = (
    names.OWN_SAMPLED_NS,
    names.OWN_OPERATORS_NS,
    names.OWN_OP_LOG_NS,
    names.OWN_MEMORY_NS,
    names.OWN_STEP_ENDS_NS,
    names.OWN_REFERENCE_NS,
)


@dataclass(frozen=True, slots=True)
class OwnCost:
    """Of one process, over its whole life. None: not measured."""

    calls: int = 0  # hook calls that recorded a span
    probes: int = 0  # hook calls that only looked
    clocks: int = 0  # readings of CPU clocks
    call_cost_ns: float | None = None
    clock_cost_ns: float | None = None  # added to that of a call
    probe_cost_ns: float | None = None
    writer_cpu_ns: float | None = None
    startup_ns: float | None = None
    torch_import_ns: float | None = None  # of the program's own import of torch
    launcher_cpu_ns: float | None = None
    sampler_cpu_ns: float | None = None  # of a thread in the program, where it profiles itself
    stacks_cpu_ns: float | None = None  # of the thread that samples stacks, and of naming them
    looks_ns: float = 0.0  # time of the program that readings at the ends of operations took
    run_cost_ns: float = 0.0  # of one run of an operation
    # What else was done between steps: looking closer at some, at the end of each, and the piece of
    # work that tells the machine's speed.
    sampled_ns: float = 0.0
    dropped: int = 0
    lost: int = 0
    failures: dict[str, int] = field(default_factory=dict)  # what went wrong → how often

    @property
    def hooks_ns(self) -> float | None:
        """Time of the program that went by in hooks, and in what they do between steps."""
        if self.call_cost_ns is None:
            return None
        recorded_ns = self.calls * self.call_cost_ns + self.clocks * (self.clock_cost_ns or 0.0)
        looked_ns = self.probes * (self.probe_cost_ns or 0.0)
        return recorded_ns + looked_ns + self.sampled_ns


def together(first: OwnCost, second: OwnCost) -> OwnCost:
    """Two processes as one, that cost and lost as much as both."""
    failures = dict(first.failures)
    for text, count in second.failures.items():
        if text in failures or len(failures) < FAILURES_KEPT:
            failures[text] = failures.get(text, 0) + count
    hooks = [cost.hooks_ns for cost in (first, second) if cost.hooks_ns is not None]
    return OwnCost(
        calls=first.calls + second.calls,
        probes=first.probes + second.probes,
        clocks=first.clocks + second.clocks,
        call_cost_ns=0.0 if hooks else None,  # all of it stands in sampled_ns
        writer_cpu_ns=_sum(first.writer_cpu_ns, second.writer_cpu_ns),
        startup_ns=max(first.startup_ns or 0.0, second.startup_ns or 0.0) or None,
        sampler_cpu_ns=_sum(first.sampler_cpu_ns, second.sampler_cpu_ns),
        stacks_cpu_ns=_sum(first.stacks_cpu_ns, second.stacks_cpu_ns),
        looks_ns=first.looks_ns + second.looks_ns,
        run_cost_ns=max(first.run_cost_ns, second.run_cost_ns),
        sampled_ns=sum(hooks),
        dropped=first.dropped + second.dropped,
        lost=first.lost + second.lost,
        failures=failures,
    )


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None and second is None else (first or 0.0) + (second or 0.0)


class OwnCostFold:
    """`update` with every batch of a process (the launcher's too); `get` at any time."""

    def __init__(self) -> None:
        self._latest: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def update(self, batch: Batch) -> None:
        wanted = {n: name for n, name in batch.names.items() if name.startswith("stepscope.")}
        if not wanted:
            return
        columns = batch.columns
        for place, number in enumerate(columns["name"].tolist()):
            name = wanted.get(number)
            if name == names.HOOK_FAILED:
                text = batch.names.get(columns["text"][place], "an unnamed place")
                self._fail(text)
            elif name is not None:
                value = columns["value"][place]
                self._latest[name] = max(value, self._latest.get(name, value))

    def _fail(self, text: str) -> None:
        if text in self._failures or len(self._failures) < FAILURES_KEPT:
            self._failures[text] = self._failures.get(text, 0) + 1

    def get(self) -> OwnCost:
        latest = self._latest
        return OwnCost(
            calls=int(latest.get(names.OWN_CALLS, 0)),
            probes=int(latest.get(names.OWN_PROBES, 0)),
            clocks=int(latest.get(names.OWN_CLOCKS, 0)),
            call_cost_ns=latest.get(names.OWN_CALL_COST_NS),
            clock_cost_ns=latest.get(names.OWN_CLOCK_COST_NS),
            probe_cost_ns=latest.get(names.OWN_PROBE_COST_NS),
            writer_cpu_ns=latest.get(names.OWN_WRITER_CPU_NS),
            startup_ns=latest.get(names.OWN_STARTUP_NS),
            torch_import_ns=latest.get(names.TORCH_IMPORT_NS),
            launcher_cpu_ns=latest.get(names.OWN_CPU_NS),
            sampler_cpu_ns=latest.get(names.OWN_SAMPLER_CPU_NS),
            stacks_cpu_ns=latest.get(names.OWN_STACKS_CPU_NS),
            looks_ns=latest.get(names.OWN_LOOKS_NS, 0.0),
            run_cost_ns=latest.get(names.OWN_RUN_COST_NS, 0.0),
            sampled_ns=sum(latest.get(name, 0.0) for name in _SAMPLED),
            dropped=int(latest.get(names.OWN_DROPPED, 0)),
            lost=int(latest.get(names.OWN_LOST, 0)),
            failures=dict(self._failures),
        )


def overhead(
    wall_ns: int, costs: Sequence[OwnCost], launcher: OwnCost, runs: int = 0
) -> dict[str, Any]:
    """What stepscope cost: its hooks against the loop's wall clock, and what ran beside it.

    runs: of operations that the program named itself.
    """
    hooks = [cost.hooks_ns for cost in costs if cost.hooks_ns is not None]
    hooks_ns = sum(hooks) if hooks else None
    writer_ns = [cost.writer_cpu_ns for cost in costs if cost.writer_cpu_ns is not None]
    startup_ns = [cost.startup_ns for cost in costs if cost.startup_ns is not None]
    sampler_ns = [cost.sampler_cpu_ns for cost in costs if cost.sampler_cpu_ns is not None]
    stacks_ns = [cost.stacks_cpu_ns for cost in costs if cost.stacks_cpu_ns is not None]
    run_cost_ns = max((cost.run_cost_ns for cost in costs), default=0.0)
    operations_ns = runs * run_cost_ns + sum(cost.looks_ns for cost in costs)
    share = hooks_ns / wall_ns if hooks_ns is not None and wall_ns else None
    found = {
        "hooks_ms": None if hooks_ns is None else hooks_ns / 1e6,
        "hooks_share": share,
        "calls": sum(cost.calls for cost in costs),
        "probes": sum(cost.probes for cost in costs),
        "writer_cpu_ms": sum(writer_ns) / 1e6 if writer_ns else None,
        "startup_ms": max(startup_ns) / 1e6 if startup_ns else None,
        "launcher_cpu_ms": _ms(launcher.launcher_cpu_ns),
        "operations_ms": operations_ns / 1e6 if runs else None,
        "operation_runs": runs,
        "sampler_cpu_ms": sum(sampler_ns) / 1e6 if sampler_ns else None,
        "stacks_cpu_ms": sum(stacks_ns) / 1e6 if stacks_ns else None,
    }
    return found | {"text": _overhead_text(found)}


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


def _overhead_text(found: Mapping[str, Any]) -> str:
    parts = []
    if found["hooks_share"] is not None:
        parts.append(
            f"{percent(found['hooks_share'])} of the loop ({duration(found['hooks_ms'] * 1e6)}"
            f" in {plural(found['calls'] + found['probes'], 'hook call')})"
        )
    if found["startup_ms"] is not None:
        parts.append(f"{duration(found['startup_ms'] * 1e6)} of start-up")
    if found["operations_ms"] is not None:
        parts.append(
            f"{duration(found['operations_ms'] * 1e6)} in"
            f" {plural(found['operation_runs'], 'run')} of operations"
        )
    beside = [
        found[name]
        for name in ("writer_cpu_ms", "launcher_cpu_ms", "sampler_cpu_ms", "stacks_cpu_ms")
        if found[name] is not None
    ]
    if beside:
        parts.append(f"{duration(sum(beside) * 1e6)} of CPU beside the program")
    return ", ".join(parts) or "not measured"
