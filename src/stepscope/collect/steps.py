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
        stepped: Callable[[Any], int] | None = None,
        begun: Callable[[], None] = nothing,
    ) -> None:
        """`begun()` is called after the first step. `at_step()` and `stepped(optimizer)` are called
        after each outermost step, but not before the time that the last `stepped` gave: until then
        step ends are only counted."""
        super().__init__(first)
        self._at_step = at_step
        self._tell = stepped
        self._begun = begun
        self._optimizer: Any = None  # the one that is at work
        self._steps = self._told = 0  # ends of steps; of these, those that were not only counted
        self._least_ns = [0, 0]  # that an end took that was counted, and told; 0: none was timed
        self._rest_ns = 0  # for how long ends are only counted, in low-overhead mode
        self._quiet_until_ns = 0
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
        self._wrap_optimizers(torch.optim.Optimizer, torch.nn.Module)
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

    def _wrap_optimizers(self, optimizer: type, module: type) -> None:
        # torch passes every class's `step` through this when it makes the class's first object.
        self._patches.replace(
            optimizer,
            "profile_hook_step",
            lambda hook: lambda step: self._step(hook(step)),
        )
        for made in _subclasses(optimizer):
            if getattr(vars(made).get("step"), "hooked", False):
                self._patches.replace(made, "step", self._step)
        for owner in (optimizer, module):
            self._patches.replace(owner, "zero_grad", lambda f: self._span(names.OPTIMIZER_ZERO, f))

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

    @property
    def has_optimizers(self) -> bool:
        """Whether the program has made one of torch's."""
        return bool(self._made)

    def watch_other(self, owner: type) -> None:
        """Steps of a class that is no optimizer of torch's. They are only counted."""
        self._patches.replace(owner, "step", self._counted_only)
        if "zero_grad" in vars(owner):
            self._patches.replace(owner, "zero_grad", lambda f: self._span(names.OPTIMIZER_ZERO, f))

    def _counted_only(self, original: Function) -> Function:
        return spanned(
            self._recorder,
            names.OPTIMIZER_STEP,
            original,
            compiling=self._compiling,
            arg=lambda optimizer, *_, **__: id(optimizer),
            done=self._end_step,
        )

    def set_calm(self, calm: bool) -> None:
        """calm: nobody looks at single steps, so that most of their ends are only counted."""
        self._rest_ns = _REST_NS if calm else 0
        self._quiet_until_ns = 0

    def _stepped(self, failed: bool) -> None:
        """Count the outermost ones: a GradScaler and a subclass call another step inside theirs."""
        if failed:
            self._optimizer = None
        if not self._end_step(failed):
            return
        recorder = self._recorder
        optimizer, self._optimizer = self._optimizer, None  # never kept alive
        now_ns = recorder.now_ns()
        is_told = now_ns >= self._quiet_until_ns
        if is_told:
            self._told += 1
            self._at_step()
            quiet_until_ns = self._tell(optimizer) if self._tell is not None else 0
            self._quiet_until_ns = now_ns + self._rest_ns if self._rest_ns else quiet_until_ns
        if not self._steps % _TIMED_EVERY:
            self._say_cost(is_told, recorder.now_ns() - now_ns)

    def _end_step(self, failed: bool) -> bool:
        """Count it, where this is the end of an outermost one."""
        if failed or not self._running or self._recorder.is_open(self._step_number):
            return False
        self._steps += 1
        self._recorder.set_step(self._steps)
        if self._steps == 1:
            self._begun()
        return True

    def _say_cost(self, is_told: bool, took_ns: int) -> None:
        """What is done at some ends only counts elsewhere (sampled steps, the machine's speed): the
        least that one took is what each costs."""
        least_ns = self._least_ns
        least_ns[is_told] = min(least_ns[is_told] or took_ns, took_ns)
        spent_ns = self._told * least_ns[1] + (self._steps - self._told) * least_ns[0]
        self._recorder.sample(self._ends, float(spent_ns))

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
