"""Which steps are looked at closer: a few, so that all of it stays within a budget."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from stepscope.collect.hooking import HookingCollector
from stepscope.collect.watch import Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["PACES", "Pace", "Roots", "SampledSteps", "Sampler"]


class Pace(NamedTuple):
    """How often. The share is of the wall clock since the first step."""

    share: float
    first: int  # the first step that may be sampled; those before it are slow for other reasons
    spread: float  # each is at least this many times as far into the run as the one before
    most: int
    gap: int = 2  # steps from one to the next at least: what one told must not slow the next


PACES: Final[dict[str, Pace | None]] = {
    "production": None,
    "basic": Pace(0.003, 5, 1.6, 12),
    "detailed": Pace(0.02, 4, 1.2, 60),
    "comprehensive": Pace(0.04, 3, 1.0, 1000),
}
# What a sampled step costs, as long as none was measured: for each module, and at all.
MODULE_NS, STEP_NS = 6000, 500_000
STRANGE_STEPS = 64  # without the optimizer that was counted by: it is gone
MOST_ROOTS = 16


class Sampler(Protocol):
    """Looks at a step from one step end to the next."""

    name: ClassVar[str]

    def begin_step(self) -> None: ...

    def end_step(self) -> int:
        """Tell what was seen; gives what looking took, in ns."""
        ...

    def drop_step(self) -> None:
        """Leave; it does not count."""
        ...


class Roots:
    """The outermost modules of the first steps."""

    def __init__(self) -> None:
        self._seen: dict[int, Callable[[], Any]] = {}
        self.first_call: Callable[[Any], None] | None = None  # is shown each before it runs

    def add(self, module: Any) -> None:
        """Called from the hook on module calls, before the module runs."""
        if id(module) not in self._seen and len(self._seen) < MOST_ROOTS:
            try:
                self._seen[id(module)] = weakref.ref(module)
            except TypeError:
                return
            if self.first_call is not None:
                self.first_call(module)

    def modules(self) -> list[Any]:
        """Those that are still there."""
        return [module for module in (ref() for ref in self._seen.values()) if module is not None]


class SampledSteps(HookingCollector):
    """Called after every step of an optimizer; lets the samplers begin and end.

    With several optimizers, a step lasts from one step of the first one to its next.
    """

    name = "sampled steps"

    def __init__(self, watch: Watch, pace: Pace | None, samplers: Sequence[Sampler] = ()) -> None:
        super().__init__()
        self.roots = Roots()
        self.samplers = samplers
        self.paused = False  # somebody else looks at the steps: none is begun here
        self.is_calm = False  # nobody wants to look at any
        self._watch = watch
        self._pace = pace
        self._active: list[Sampler] = []
        self._anchor = self._strange = 0
        self._step = self._sampled = 0
        self._next = pace.first if pace else 0
        self._start_ns = 0
        self._spent_ns = self._last_ns = 0  # in all; by the last one

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """See StepsCollector: in another process nobody samples."""
        return SampledSteps, (Watch(), None)

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._spent = recorder.intern(names.OWN_SAMPLED_NS)
        self._watch.seen = self.roots.add

    def _uninstall(self) -> None:
        self.drop()
        self._watch.seen = None
        super()._uninstall()

    @property
    def is_looking(self) -> bool:
        return bool(self._active)

    def drop(self) -> None:
        """Leave the step that is looked at, if there is one (a fork; the end)."""
        for sampler in self._active:
            self._guarded(sampler.name, sampler.drop_step)
        self._active = []

    def after_step(self, optimizer: Any) -> bool:
        """Whether that was the end of a step. Never raises."""
        if not self._running or not self._is_anchor(id(optimizer)):
            return False
        now_ns = self._recorder.now_ns()
        self._step += 1
        self._start_ns = self._start_ns or now_ns
        self._watch.seen = None  # the first step has shown the modules
        if self._active:
            self._guarded(self.name, self._end)
        is_free = not (self.paused or self.is_calm)
        if is_free and self._guarded(self.name, lambda: self._is_due(now_ns)):
            self._guarded(self.name, self._begin)
        return True

    def _is_anchor(self, optimizer: int) -> bool:
        if optimizer == self._anchor:
            self._strange = 0
            return True
        self._strange += 1
        if self._anchor and self._strange < STRANGE_STEPS:
            return False
        self._anchor, self._strange = optimizer, 0
        self.drop()  # what waits for a step of the other one would wait for ever
        return True

    def _is_due(self, now_ns: int) -> bool:
        pace = self._pace
        if pace is None or self._step < self._next or self._sampled >= pace.most:
            return False
        if not self._last_ns:
            self._last_ns = self._expected_ns()
        return self._spent_ns + self._last_ns <= pace.share * (now_ns - self._start_ns)

    def _expected_ns(self) -> int:
        modules = sum(1 for root in self.roots.modules() for _ in root.modules())
        return STEP_NS + MODULE_NS * modules

    def _begin(self) -> None:
        assert self._pace is not None
        self._sampled += 1
        self._next = max(self._step + self._pace.gap, math.ceil(self._step * self._pace.spread))
        for sampler in self.samplers:
            self._active.append(sampler)
            self._guarded(sampler.name, sampler.begin_step)

    def _end(self) -> None:
        active, self._active = self._active, []
        last_ns = 0
        for sampler in active:
            last_ns += self._guarded(sampler.name, sampler.end_step) or 0
        self._last_ns = max(last_ns, 1)
        self._spent_ns += last_ns
        if self._running:
            self._recorder.sample(self._spent, float(self._spent_ns))

    def _guarded(self, where: str, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(where, error)
            return None
