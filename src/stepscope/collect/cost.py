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

_CALLS = 60
_NEVER_NS = 1 << 60
_MOVED_BYTES = 1 << 19


class HookCost(NamedTuple):
    call_ns: float  # a call that records a span
    clock_ns: float  # one reading of the CPU clock
    probe_ns: float  # a nested module call, that only looks


def measure_hook_cost(recorder: Recorder) -> HookCost:
    """The added cost of our wrappers. Whatever writes has to pause meanwhile.

    Each call comes after other work: in a loop of nothing but calls a hook takes a third of what
    it takes in training, where the program pushes our code and data out of the caches from one call
    to the next. Medians, because the machine is never quiet.
    """
    import torch
    from torch.nn import Identity, Module

    before = recorder.position()
    now_ns, begin, end = recorder.now_ns, recorder.begin, recorder.end
    bare, module, forward = Module.__call__, Identity(), recorder.intern(names.FORWARD)
    compiling = torch.compiler.is_dynamo_compiling
    recorded = spanned(recorder, names.FORWARD, bare, compiling=compiling, arg=_number)
    probed = forward_call(recorder, bare)
    other_work = _other_work(torch)

    def taken_ns(function: Callable[..., Any]) -> int:
        other_work()
        began_ns = now_ns()
        function(module, None)
        return now_ns() - began_ns

    clocked_ns = [taken_ns(recorded) for _ in range(_CALLS)]
    bare_ns, call_ns, probe_ns = [], [], []
    with _without_clocks(recorder):
        for _ in range(_CALLS):
            bare_ns.append(taken_ns(bare))
            call_ns.append(taken_ns(recorded))
            token = begin(forward)
            probe_ns.append(taken_ns(probed))
            end(token)
    recorder.discard(before)  # counts included: these calls are not the program's
    clocked, free, call, probe = map(_median, (clocked_ns, bare_ns, call_ns, probe_ns))
    costs_ns = (call - free, (clocked - call) / 2, probe - free)
    return HookCost(*(max(cost_ns, 0.0) for cost_ns in costs_ns))


def _number(*_: Any) -> int:
    return 0


def _median(values_ns: list[int]) -> float:
    return float(sorted(values_ns)[len(values_ns) // 2])


def _other_work(torch: Any) -> Callable[[], None]:
    """Some 20 µs of small operators, as training has them, and of moving memory. No random number
    is drawn, and none of these operators starts threads for so few values."""
    values = torch.full((64, 64), 0.5, dtype=torch.float32, device="cpu")
    source, target = bytes(_MOVED_BYTES), bytearray(_MOVED_BYTES)

    def work() -> None:
        torch.relu(values + values)
        (values * values).sum()
        values.to(torch.float64).view(-1)
        target[:] = source

    return work


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
