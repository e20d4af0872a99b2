"""What torch's checkpointing takes by itself, measured on functions that do next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, Final

from stepscope.checkpointing.candidates import Overheads
from stepscope.checkpointing.meter import Meter
from stepscope.checkpointing.policies import contexts
from stepscope.collect.checkpoints import UNSEEN
from stepscope.model.checkpoint_plan import CHEAP

__all__ = ["measure_overheads"]

_ROUNDS: Final = 25
_OPERATORS: Final = 20
# Between two of them the processor does something else, as in training: with its caches full of
# them they would take half the time.
_OTHER_BYTES: Final = 32 << 20


def measure_overheads(meter: Meter, device: Any) -> Overheads:
    import torch
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(8, device=device, requires_grad=True)
    cheaply = contexts(CHEAP)
    assert cheaply is not None

    def few(value: Any) -> Any:
        for _ in range(_OPERATORS):
            value = value.sin()  # keeps its input, so there is something to recompute
        return value

    few.__name__ = UNSEEN  # no checkpoint of the program: nobody is told, and it is never shut

    def plain() -> Any:
        return few(x)

    def whole() -> Any:
        return checkpoint(few, x, use_reentrant=False)

    def cheap() -> Any:
        return checkpoint(few, x, use_reentrant=False, context_fn=cheaply.eager)

    # Interleaved: whatever slows this machine now slows all three.
    times: dict[Callable[[], Any], list[float]] = {plain: [], whole: [], cheap: []}
    other_work = torch.ones(_OTHER_BYTES // 4, device=device)
    for _ in range(_ROUNDS):
        for run, taken in times.items():
            other_work.mul_(1.0)
            began = meter.moment()
            run().sum().backward()
            taken.append(meter.ms(began, meter.moment()))
    again_ms = _forward_ms(meter, plain, other_work)
    call_ms = median(times[whole]) - median(times[plain]) - again_ms
    operator_ms = (median(times[cheap]) - median(times[whole])) / _OPERATORS
    state_bytes = int(torch.get_rng_state().nbytes)
    return Overheads(max(0.0, call_ms), state_bytes, max(0.0, operator_ms))


def _forward_ms(meter: Meter, plain: Callable[[], Any], other_work: Any) -> float:
    """What is recomputed there is counted with the segments, not here."""
    taken = []
    for _ in range(_ROUNDS):
        other_work.mul_(1.0)
        began = meter.moment()
        plain()
        taken.append(meter.ms(began, meter.moment()))
    return median(taken)
