"""What a hook costs on this machine, in this process: measured before anything is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from stepscope.collect.chain import spanned
from stepscope.collect.forward import forward_call
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["HookCost", "measure_hook_cost"]

_ROUNDS, _CALLS = 5, 60  # the fastest of a few short rounds: the machine is never quiet
_NEVER_NS = 1 << 60


class HookCost(NamedTuple):
    call_ns: float  # a call that records a span
    clock_ns: float  # one reading of the CPU clock
    probe_ns: float  # a nested module call, that only looks


def measure_hook_cost(recorder: Recorder) -> HookCost:
    """The added cost of our wrappers. Whatever writes has to pause meanwhile."""
    from torch.nn import Identity, Module

    before = recorder.position()
    call, module = Module.__call__, Identity()
    bare_ns = _fastest(recorder, call, module)
    recorded = spanned(recorder, names.FORWARD, call)
    clocked_ns = _fastest(recorder, recorded, module)
    with _without_clocks(recorder):
        call_ns = _fastest(recorder, recorded, module)
    token = recorder.begin(recorder.intern(names.FORWARD))
    probe_ns = _fastest(recorder, forward_call(recorder, call), module)
    recorder.end(token)
    recorder.discard(before)  # counts included: these calls are not the program's
    costs_ns = (call_ns - bare_ns, (clocked_ns - call_ns) / 2, probe_ns - bare_ns)
    return HookCost(*(max(cost_ns, 0.0) for cost_ns in costs_ns))


@contextmanager
def _without_clocks(recorder: Recorder) -> Iterator[None]:
    """As most calls are where steps are short. Before the first step."""
    core = recorder.core
    flush_ns, clock_ns = core.set_pace()
    core.set_pace(flush_ns, _NEVER_NS)
    core.set_step(1)
    try:
        yield
    finally:
        core.set_step(0)  # clocks are read again
        core.set_pace(flush_ns, clock_ns)


def _fastest(recorder: Recorder, function: Callable[..., Any], module: Any) -> float:
    fastest_ns = float("inf")
    for _ in range(_ROUNDS):
        began_ns = recorder.now_ns()
        for _ in range(_CALLS):
            function(module, None)
        fastest_ns = min(fastest_ns, (recorder.now_ns() - began_ns) / _CALLS)
    return fastest_ns
