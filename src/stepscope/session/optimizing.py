"""The engine behind CodeOptimizer: what was optimised, what came of it, and how to take it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from stepscope.config import SAMPLING_INTERVAL_S, Level
from stepscope.model.optimization import Optimization
from stepscope.session.advanced import Seen
from stepscope.session.optimizing_functions import optimize_function
from stepscope.session.optimizing_loading import optimize_loader
from stepscope.session.optimizing_process import (
    Switched,
    Work,
    free_memory,
    optimize_gpu,
    optimize_switch,
    thread_switch,
    work_s,
)

__all__ = ["Optimizing"]

_TRAINING_RAN = (
    "A training loop was seen, whose steps cannot be repeated from here: say what to measure with"
    " work=. Nothing was changed."
)


class Config(Protocol):
    """What is read of a ProfilingConfig."""

    @property
    def memory_threshold(self) -> float: ...


class _LoaderConfig:
    """As the engine of loaders wants it."""

    profiling_level = Level.DETAILED
    interval_s = SAMPLING_INTERVAL_S
    enable_gpu_tracking = False

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def memory_threshold(self) -> float:
        return self._config.memory_threshold / 100


class _Made(NamedTuple):
    """A loader or function and what became of it; `samples`: ids of those that it was tried on."""

    subject: Any
    result: Any
    samples: Sequence[int] = ()
    is_result: bool = False


class Optimizing:
    """`records`: in the order in which they were made."""

    def __init__(self, seen: Seen, config: Config) -> None:
        self._seen, self._config = seen, _LoaderConfig(config)
        self.records: list[Optimization] = []
        self._known: dict[int, _Made] = {}  # by id, which is its own as long as it is in here
        self._undos: list[Callable[[], None]] = []

    def loader(self, loader: Any) -> Any:
        known = self._known.get(id(loader))
        if known is None:
            made, record = optimize_loader(loader, self._config, self._seen.step)
            known = self._add(_Made(loader, made), record)
        return known.result

    def function(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Once more where there are other samples than before: it has to give the same on all."""
        samples = self._seen.samples_of(function)
        known = self._known.get(id(function))
        if known is None or (known.samples != [*map(id, samples)] and not known.is_result):
            made, record = optimize_function(function, samples)
            known = self._add(_Made(function, made, [*map(id, samples)]), record)
        found: Callable[[Any], Any] = known.result
        return found

    def _add(self, made: _Made, record: Optimization) -> _Made:
        self.records.append(record)
        self._known[id(made.subject)] = made
        if made.result is not made.subject:  # what is optimised already stays
            self._known[id(made.result)] = _Made(made.result, made.result, is_result=True)
        return made

    def memory(self) -> Optimization:
        return self._switched(free_memory())

    def cpu(self, work: Work | None) -> Optimization:
        if work is None and self._seen.step is not None:
            return self._switched(Switched(Optimization(target="cpu", reason=_TRAINING_RAN), None))
        return self._switched(
            optimize_switch("cpu", thread_switch(), work or self._profiled_work(), work_s)
        )

    def gpu(self, work: Work | None) -> Optimization:
        return self._switched(optimize_gpu(work))

    def _profiled_work(self) -> Work | None:
        """All functions that were profiled, each on its samples."""
        functions = self._seen.functions()
        if not functions:
            return None

        def work() -> None:
            for function, samples in functions:
                for data in samples:
                    function(data)

        return work

    def _switched(self, switched: Switched) -> Optimization:
        self.records.append(switched.record)
        if switched.undo is not None:
            self._undos.append(switched.undo)
        return switched.record

    def undo(self) -> None:
        while self._undos:
            self._undos.pop()()
