"""One module's forward, replaced by one that checkpoints, and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import MethodType
from typing import Any, Final, NamedTuple

from stepscope.checkpointing.policies import Recompute
from stepscope.checkpointing.wrapping_call import Part, Runner, SegmentCall, Switch
from stepscope.collect.chain import placed
from stepscope.model.checkpoint_plan import Segment
from stepscope.model.own_code import hide_own_frames

__all__ = ["Shared", "Wrapping", "wrap_module", "wrap_runs"]

FORWARD: Final = "forward"
# Keywords of torch.utils.checkpoint.checkpoint: a forward may have some of the same name.
TORCHS_OWN: Final = frozenset(
    {
        "function",
        "use_reentrant",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
        "preserve_rng_state",
    }
)


class Shared(NamedTuple):
    """What all segments of a manager share."""

    runner: Runner
    switch: Switch


class Wrapping:
    """A module whose forward is ours until `remove`.

    The new forward is a method of the instance, so `copy.deepcopy` gives a copy that checkpoints
    itself, and a pickled model comes back plain. `Module.__call__` and the hooks on the module stay
    outside; hooks on modules inside run again while recomputing, as with torch's own checkpoints.
    """

    def __init__(self, module: Any, forward: Callable[..., Any], parts: tuple[Part, ...]) -> None:
        self.module, self.parts = module, parts
        self._was_own = FORWARD in module.__dict__
        self._before = module.__dict__.get(FORWARD)
        self._ours = MethodType(forward, module)
        module.__dict__[FORWARD] = self._ours

    def remove(self) -> None:
        """As it was. Where somebody replaced our forward since, it stays below theirs and does
        nothing; the same holds for copies that were made of the model."""
        for part in self.parts:
            part.is_removed = True
        if self.module.__dict__.get(FORWARD) is not self._ours:
            return
        if self._was_own:
            self.module.__dict__[FORWARD] = self._before
        else:
            del self.module.__dict__[FORWARD]


def wrap_module(module: Any, segment: Segment, recompute: Recompute, shared: Shared) -> Wrapping:
    """Its whole forward is a segment."""
    own = module.__dict__.get(FORWARD)
    body = type(module).forward if own is None else _without_self(own)
    part = Part(segment, body, _modules_inside, recompute, shared.runner, shared.switch)
    return Wrapping(module, functools.wraps(body)(_checkpointing(part)), (part,))


def wrap_runs(sequential: Any, segments: Iterable[Segment], shared: Shared) -> Wrapping:
    """Each run of its children is a segment; the children between them are called as before."""
    parts = tuple(_run_part(segment, shared) for segment in segments)
    runs = {part.segment.first: (part.segment.last, _checkpointing(part)) for part in parts}

    @functools.wraps(type(sequential).forward)
    def forward(self: Any, input: Any) -> Any:
        last: int | None = None
        for at, child in enumerate(self):
            if last is not None and at <= last:
                continue  # the run that began before has called it
            if at in runs:
                last, run = runs[at]
                input = run(self, input)
            else:
                input = child(input)
        return input

    # The frame of the Sequential's own forward, which it stands for, is in tracebacks too.
    return Wrapping(sequential, placed(forward, type(sequential).forward), parts)


def _run_part(segment: Segment, shared: Shared) -> Part:
    return Part(
        segment,
        functools.partial(_run_children, segment),
        functools.partial(_modules_of_run, segment),
        segment.recompute,
        shared.runner,
        shared.switch,
    )


def _checkpointing(part: Part) -> Callable[..., Any]:
    """What a part's forward does: torch's checkpoint where there is something to save."""
    import torch
    from torch.utils.checkpoint import checkpoint

    body = part.body

    def run(module: Any, *args: Any, **kwargs: Any) -> Any:
        if part.is_removed or not part.switch.on or not torch.is_grad_enabled():
            return body(module, *args, **kwargs)
        bound = {name: kwargs.pop(name) for name in tuple(kwargs) if name in TORCHS_OWN}
        # The compiler turns the call below into an operator of its own, and decides by itself what
        # to compute again; it changes buffers once.
        compiling = torch.compiler.is_compiling()
        if part.contexts is not None:
            kwargs["context_fn"] = part.contexts.compiled if compiling else part.contexts.eager
        if compiling:
            function = functools.partial(body, module, **bound)
            return checkpoint(function, *args, use_reentrant=False, **kwargs)
        call = SegmentCall(part, module, bound)
        try:
            return checkpoint(call, *call.prepare(args), use_reentrant=False, **kwargs)
        except BaseException:
            hide_own_frames()
            raise

    return run


def _without_self(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Of a forward that the instance had of its own, which knows its module."""

    @functools.wraps(forward)
    def body(_module: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return body


def _modules_inside(*modules: Any) -> list[Any]:
    """With those inside them. Every forward asks, and `Module.modules()` takes longer because it
    makes names; shared ones may come twice here."""
    found = list(modules)
    for module in found:
        children = module._modules
        if children:
            found += [child for child in children.values() if child is not None]
    return found


def _children_of_run(segment: Segment, sequential: Any) -> Iterator[Any]:
    assert segment.first is not None
    assert segment.last is not None
    return islice(iter(sequential), segment.first, segment.last + 1)


def _run_children(segment: Segment, sequential: Any, value: Any) -> Any:
    for child in _children_of_run(segment, sequential):
        value = child(value)
    return value


def _modules_of_run(segment: Segment, sequential: Any) -> list[Any]:
    return _modules_inside(*_children_of_run(segment, sequential))
