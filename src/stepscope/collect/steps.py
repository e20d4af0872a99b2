"""What the optimizer does → spans, and the count of steps that other events carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stepscope.collect.chain import nothing, spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["StepsCollector"]

Function = Callable[..., Any]
_TIMED_EVERY = 32
_REST_NS = 250_000_000


class StepsCollector(HookingCollector):
    """Spans around optimizer steps, gradient scaling, clipping and zeroing."""

    name = "steps"

    def __init__(
        self,
        first: Callable[[], None] = nothing,
        at_step: Callable[[], None] = nothing,
        stepped: Callable[[Any], None] | None = None,
    ) -> None:
        """`at_step()` and `stepped(optimizer)` are called after each outermost step."""
        super().__init__(first)
        self._at_step = at_step
        self._tell = stepped
        self._optimizer: Any = None  # the one that is at work
        self._steps = 0
        self._least_ns = 0  # that the end of a step took; 0: none was timed
        self._rest_ns = self._rested_ns = 0  # how long ends are only counted, and until when
        self._made: list[Function] = []

    def __reduce__(self) -> tuple[type[StepsCollector], tuple[()]]:
        """An optimizer class that is pickled by value brings its wrapper along, and that one us."""
        return StepsCollector, ()

    def _install(self, recorder: Recorder) -> None:
        import torch

        self._recorder = recorder
        self._step_number = recorder.intern(names.OPTIMIZER_STEP)
        self._ends = recorder.intern(names.OWN_STEP_ENDS_NS)
        self._compiling = torch.compiler.is_dynamo_compiling
        self._wrap_optimizers(torch.optim.Optimizer)
        self._wrap_scaler(torch.amp.GradScaler)
        self._wrap_clipping(torch.nn.utils)

    def _uninstall(self) -> None:
        super()._uninstall()
        import torch

        for made in _subclasses(torch.optim.Optimizer):
            step = vars(made).get("step")
            if step in self._made:  # classes hooked after start()
                original = step.__wrapped__
                original.hooked = True  # what torch had set on ours: it must not hook twice
                made.step = original

    def _wrap_optimizers(self, optimizer: type) -> None:
        # torch passes every class's `step` through this when it makes the class's first object.
        self._patches.replace(
            optimizer,
            "profile_hook_step",
            lambda hook: lambda step: self._step(hook(step)),
        )
        for made in _subclasses(optimizer):
            if getattr(vars(made).get("step"), "hooked", False):
                self._patches.replace(made, "step", self._step)
        self._patches.replace(optimizer, "zero_grad", lambda f: self._span(names.OPTIMIZER_ZERO, f))

    def _wrap_scaler(self, scaler: type) -> None:
        self._patches.replace(scaler, "step", self._step_of_scaler)
        for method in ("unscale_", "update"):
            self._patches.replace(scaler, method, lambda f: self._span(names.OPTIMIZER_SCALE, f))

    def _wrap_clipping(self, utils: Any) -> None:
        for function in ("clip_grad_norm_", "clip_grad_value_"):
            original = getattr(utils, function)
            wrapper = self._span(names.OPTIMIZER_CLIP, original)
            for owner in (utils, utils.clip_grad):
                self._patches.put(owner, function, wrapper)

    def _span(self, name: str, original: Function) -> Function:
        return spanned(self._recorder, name, original, compiling=self._compiling)

    def _step(self, original: Function) -> Function:
        wrapper = self._counted(original, self._first_id)
        self._made.append(wrapper)
        return wrapper

    def _step_of_scaler(self, original: Function) -> Function:
        return self._counted(original, self._second_id)

    def _counted(self, original: Function, optimizer: Callable[..., int]) -> Function:
        return spanned(
            self._recorder,
            names.OPTIMIZER_STEP,
            original,
            compiling=self._compiling,
            arg=optimizer,
            first=self._first,
            done=self._stepped,
        )

    def set_calm(self, calm: bool) -> None:
        """calm: nobody looks at single steps, so that most of their ends are only counted."""
        self._rest_ns = _REST_NS if calm else 0

    def _stepped(self, failed: bool) -> None:
        """Count the outermost ones: a GradScaler and a subclass call another step inside theirs."""
        if failed:
            self._optimizer = None
        if failed or not self._running or self._recorder.is_open(self._step_number):
            return
        steps = self._steps = self._steps + 1
        began_ns = 0 if steps % _TIMED_EVERY else self._recorder.now_ns()
        self._recorder.set_step(steps)
        optimizer, self._optimizer = self._optimizer, None  # never kept alive
        if not self._rest_ns or self._has_rested():
            self._at_step()
            if self._tell is not None:
                self._tell(optimizer)
        if began_ns:
            self._say_cost(began_ns)

    def _has_rested(self) -> bool:
        now_ns = self._recorder.now_ns()
        if now_ns < self._rested_ns:
            return False
        self._rested_ns = now_ns + self._rest_ns
        return True

    def _say_cost(self, began_ns: int) -> None:
        """What is done at some ends only counts elsewhere (sampled steps, the machine's speed): the
        least that one took is what each costs."""
        took_ns = self._recorder.now_ns() - began_ns
        self._least_ns = min(self._least_ns or took_ns, took_ns)
        self._recorder.sample(self._ends, float(self._least_ns * self._steps))

    def _first_id(self, optimizer: object, /, *_: object, **__: object) -> int:
        self._optimizer = optimizer
        return id(optimizer)

    def _second_id(
        self, scaler: object, /, optimizer: object = None, *_: object, **__: object
    ) -> int:
        self._optimizer = optimizer
        return id(optimizer)


def _subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for made in base.__subclasses__():
        yield made
        yield from _subclasses(made)
