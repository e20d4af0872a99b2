"""The engine behind profilers that start and stop: a block, its metrics, what was in its way."""

from __future__ import annotations

import tracemalloc
import weakref
from typing import Protocol

from stepscope.analyze.block import Thresholds, block_findings
from stepscope.analyze.operations import OperationUse
from stepscope.collect.own_memory import PythonHeap
from stepscope.config import Level, Settings
from stepscope.model.finding import Finding
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.summary import Summary
from stepscope.session.block import Block
from stepscope.session.inside import inside
from stepscope.session.profile import Profile, shared_profile
from stepscope.session.wishes import Wishes

__all__ = ["BlockProfile", "Tracing"]

_FRESH_NS = 50_000_000  # what was measured so far is looked at again after so long, or
_COST_SHARE = 100  # after so many times what looking took


class Config(Protocol):
    """What is read of a ProfilingConfig."""

    @property
    def level(self) -> Level: ...
    @property
    def max_samples(self) -> int: ...
    @property
    def cpu_threshold(self) -> float: ...
    @property
    def memory_threshold(self) -> float: ...
    @property
    def gpu_threshold(self) -> float: ...


class BlockProfile:
    """Opens and closes blocks of one name."""

    def __init__(self, name: str, config: Config, *, gpu: bool) -> None:
        self._name, self._config, self._gpu = name, config, gpu
        self._profile: Profile | None = None
        self._block: Block | None = None
        self._fresh_until_ns = 0
        self._so_far = PerformanceMetrics()
        self.use: OperationUse | None = None  # of the last block that was closed,
        self.summary: Summary | None = None  # and of the training loop within it

    @property
    def is_open(self) -> bool:
        return self._block is not None

    def open(self) -> None:
        """With the settings of now."""
        config = self._config
        interval_s = Settings(level=config.level).system_interval_s
        wishes = Wishes(gpu=self._gpu, interval_s=interval_s, keep=config.max_samples)
        self._thresholds = Thresholds(
            config.cpu_threshold, config.memory_threshold, config.gpu_threshold
        )
        self._profile = shared_profile(wishes)
        self._block = self._profile.block(self._name)
        self._fresh_until_ns = 0
        self._block.open()

    def close(
        self, failed: type[BaseException] | None = None
    ) -> tuple[PerformanceMetrics, list[Finding]]:
        """The metrics of the block, and what was in its way: in the training loop if one ran."""
        assert self._block is not None
        assert self._profile is not None
        block, self._block = self._block, None
        self.use = use = block.close(failed)
        self.summary = block.summary()
        found = list(self.summary.findings) or block_findings(use, self._thresholds)
        return self._profile.measured(use), found

    def so_far(self) -> PerformanceMetrics:
        """Measured anew when the last time is long enough ago: asking in every step is cheap."""
        assert self._block is not None
        assert self._profile is not None
        now_ns = inside().recorder.now_ns
        began_ns = now_ns()
        if began_ns >= self._fresh_until_ns:
            self._so_far = self._profile.measured(self._block.use())
            ended_ns = now_ns()
            self._fresh_until_ns = ended_ns + max(_FRESH_NS, _COST_SHARE * (ended_ns - began_ns))
        return self._so_far


class Tracing:
    """tracemalloc for a profiler.

    It stays on after a block, so that the program can ask tracemalloc for its results, as document
    003 does. It goes off when the last profiler that wanted it is gone or starts without it, and
    stays on where the program had it on before.
    """

    def __init__(self) -> None:
        self._let_go: weakref.finalize[[], Tracing] | None = None

    def start(self, *, wanted: bool) -> None:
        """The peak that tracemalloc tells counts from here."""
        if not wanted:
            if self._let_go is not None:
                self._let_go()
                self._let_go = None
            return
        if self._let_go is None:
            _tracers.hold()
            self._let_go = weakref.finalize(self, _tracers.let_go)
            self._let_go.atexit = False
        inside().look()  # the peak so far belongs to those that were started before
        if not tracemalloc.is_tracing():
            tracemalloc.start()  # the program may have stopped it
        tracemalloc.reset_peak()


class _Tracers:
    """Those that want tracemalloc on: the first one switches it on, the last one off."""

    def __init__(self) -> None:
        self._count = 0
        self._is_ours = self._is_sampled = False

    def hold(self) -> None:
        if not self._count:
            self._is_ours = not tracemalloc.is_tracing()
        self._count += 1
        if not self._is_sampled:
            self._is_sampled = True
            inside().add_source(PythonHeap())

    def let_go(self) -> None:
        self._count -= 1
        if not self._count and self._is_ours:
            tracemalloc.stop()


_tracers = _Tracers()
