"""A segment, and one checkpoint of it: what torch runs in forward, and again in backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from stepscope.checkpointing.engine_observers import note_failure
from stepscope.checkpointing.policies import Recompute, contexts, named
from stepscope.checkpointing.wrapping_arguments import ArgumentHabits, ArgumentsBefore
from stepscope.checkpointing.wrapping_buffers import BufferHabits, BuffersBefore
from stepscope.model.checkpoint_plan import Segment
from stepscope.model.own_code import hide_own_frames

__all__ = ["Part", "Runner", "SegmentCall", "Switch"]


class Switch:
    """Shared by all segments of a manager: off, their forwards run as if nothing were there."""

    def __init__(self) -> None:
        self.on = True


class Runner(Protocol):
    """The engine, as a call sees it."""

    def forward(self, call: SegmentCall, args: Any, kwargs: Any) -> Any: ...
    def again(self, call: SegmentCall, args: Any, kwargs: Any) -> Any: ...


class Part:
    """A segment as it stands in a model: what all of its calls share.

    `body` takes the module and the arguments of its forward; `inside` gives the modules, children
    of children included, whose buffers it may change.
    """

    def __init__(
        self,
        segment: Segment,
        body: Callable[..., Any],
        inside: Callable[[Any], Iterable[Any]],
        recompute: Recompute,
        runner: Runner,
        switch: Switch,
    ) -> None:
        self.body, self.inside = body, inside
        self.runner, self.switch = runner, switch
        self.habits, self.argument_habits = BufferHabits(), ArgumentHabits()
        self.is_removed = False
        self.label = segment.label
        self._segment = segment
        self.choose(recompute)

    def choose(self, recompute: Recompute) -> None:
        """From the next forward on."""
        self.contexts = contexts(recompute)
        self.segment = self._segment._replace(recompute=named(recompute))


class SegmentCall:
    """Lives as long as the graph that its forward made: torch holds it to run it again.

    `layer_id` is how the profiler names it. `is_retrieval`: what torch asked for last was not
    computed but taken from the engine's cache.
    """

    def __init__(self, part: Part, module: Any, bound: dict[str, Any]) -> None:
        self.layer_id = part.label
        self.part, self.module = part, module
        self.runs = 0  # forward is the first
        self.is_retrieval = False
        self.origin: Any = None  # where the engine runs ahead: what it needs to know for that
        self._bound = bound
        self._buffers: BuffersBefore | None = None
        self._arguments: ArgumentsBefore | None = None

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Before torch is given the arguments: those to give it."""
        try:
            arguments = self.part.argument_habits.before(args)
            given = args if arguments is None else arguments.for_torch()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            note_failure("arguments before a forward", error)
            return args
        self._arguments = arguments
        return given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The first time forward; from then on what torch needs for a backward."""
        kwargs.update(self._bound)
        self.runs += 1
        try:
            if self.runs == 1:
                return self.part.runner.forward(self, args, kwargs)
            return self.part.runner.again(self, args, kwargs)
        except BaseException:
            hide_own_frames()
            raise

    def compute(self, args: Any, kwargs: Any) -> Any:
        """In forward."""
        part, module = self.part, self.module
        training = bool(module.training)
        if self._arguments is not None:
            args = self._arguments.for_forward()
        try:
            self._buffers = part.habits.before(part.inside(module), training)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            note_failure("buffers before a forward", error)
        result = part.body(module, *args, **kwargs)
        try:
            if self._buffers is not None:
                part.habits.learn(self._buffers, training)
            if self._arguments is not None:
                part.argument_habits.learn(self._arguments)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            note_failure("what a forward changed", error)
        return result

    def compute_again(self, args: Any, kwargs: Any) -> Any:
        """In backward: from what forward was given, and buffers stay as they are."""
        if self._arguments is not None:
            args = self._arguments.for_recomputing(args)
        if self._buffers is None:
            return self.part.body(self.module, *args, **kwargs)
        with self._buffers.put_in():
            return self.part.body(self.module, *args, **kwargs)

    def parameters(self) -> list[Any]:
        return self._tensors("_parameters")

    def buffers(self) -> list[Any]:
        return self._tensors("_buffers")

    def _tensors(self, kind: str) -> list[Any]:
        stores = [getattr(module, kind) for module in self.part.inside(self.module)]
        return [one for store in stores for one in store.values() if one is not None]
