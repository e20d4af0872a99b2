"""CodeOptimizer: makes loaders, functions and the process faster, and proves each by measuring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.errors import UsageError
from stepscope.model.optimization import Optimization
from stepscope.profilers.advanced import AdvancedProfiler
from stepscope.session.optimizing import Optimizing

__all__ = ["CodeOptimizer"]


class CodeOptimizer:
    """Changes nothing that was not measured to help, beside what it stands in for, in turns.

    What a profiler saw counts: the step of a training that ran between start and stop stands beside
    the loader while it is measured; data given to `profile_preprocessing` are the samples on which
    a function has to give equal results. The program's random numbers are put back.

    `auto_optimize=True` of the profiler's configuration: each loader and function is optimised as
    soon as it was profiled, and asking for it gives what was found; memory and CPUs are optimised
    at the first `stop_profiling`. For development: measuring takes seconds.

    The source document promises fixed gains for fixed changes; here each has its measured ratio,
    with an interval, in `get_optimization_report()`, and the original comes back with the reason
    where there is no gain.
    """

    def __init__(self, profiler: AdvancedProfiler) -> None:
        if not isinstance(profiler, AdvancedProfiler):
            raise UsageError(f"CodeOptimizer is made with an AdvancedProfiler, not {profiler!r}.")
        self.profiler = profiler
        self._engine = Optimizing(profiler.seen, profiler.config)
        self._is_stopped = False
        profiler.optimized_by(self)

    def optimize_data_loading(self, dataloader: Any) -> Any:
        """A loader over the same samples in the same order that was measured to be faster; the same
        one where there is none (the report says why). One that was optimised before is not measured
        again."""
        return self._engine.loader(dataloader) if self._is_on else dataloader

    def optimize_preprocessing(
        self, preprocessing_func: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """A function that gave equal results on the data that it was profiled with and was measured
        to be faster; the same one where there is none."""
        if not callable(preprocessing_func):
            raise UsageError(f"Preprocessing is a function, not {preprocessing_func!r}.")
        return self._engine.function(preprocessing_func) if self._is_on else preprocessing_func

    def optimize_memory(self) -> Optimization:
        """Collect garbage, give free memory back, and freeze what is left for the collector where
        that makes collections faster."""
        return self._engine.memory() if self._is_on else _off("memory")

    def optimize_cpu(self, work: Callable[[], object] | None = None) -> Optimization:
        """The number of threads of torch that is fastest for `work`, which is called many times;
        without it, for the functions that were profiled, unless a training loop was seen: what is
        best for those need not be for training."""
        return self._engine.cpu(work) if self._is_on else _off("cpu")

    def optimize_gpu(self, work: Callable[[], object] | None = None) -> Optimization:
        """Let cuDNN choose its algorithms by trying, where that is faster for `work`."""
        return self._engine.gpu(work) if self._is_on else _off("gpu")

    def undo(self) -> None:
        """Put back what was changed in this process. Loaders and functions need none: the program
        has its own still."""
        self._engine.undo()

    def get_optimization_report(self) -> dict[str, Any]:
        """Each optimisation with what was predicted and measured, kept or why not; plain JSON."""
        records = self._engine.records
        return {
            "enabled": self._is_on,
            "auto_optimize": self.profiler.config.auto_optimize,
            "kept": sum(one.kept for one in records),
            "optimizations": [one.to_dict() for one in records],
            "text": [str(one) for one in records],
        }

    @property
    def _is_on(self) -> bool:
        return self.profiler.config.enabled

    # What the profiler tells, where auto_optimize=True.

    def loader_profiled(self, loader: Any) -> None:
        self.optimize_data_loading(loader)

    def function_profiled(self, function: Callable[[Any], Any]) -> None:
        self.optimize_preprocessing(function)

    def profiling_stopped(self) -> None:
        """The first time only: the process is the same one afterwards."""
        if not self._is_stopped:
            self._is_stopped = True
            self.optimize_memory()
            self.optimize_cpu()


def _off(target: str) -> Optimization:
    reason = "Profiling is switched off (enabled=False): nothing was measured or changed."
    return Optimization(target=target, reason=reason)
