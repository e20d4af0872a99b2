"""The engine behind BottleneckProfiler: a session, its operations, and what stood in the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol

from stepscope.advise.catalogue import advise
from stepscope.advise.operations import suggest, suggest_memory
from stepscope.analyze.block import Thresholds, block_findings
from stepscope.analyze.bottlenecks import (
    OperationRecord,
    finding_bottlenecks,
    memory_bottleneck,
    operation_bottlenecks,
    worst_first,
)
from stepscope.analyze.nesting import NestingFold
from stepscope.analyze.operations import OperationUse
from stepscope.config import Level
from stepscope.errors import UsageError
from stepscope.model.bottlenecks import BottleneckProfile, ProfilingSession
from stepscope.model.finding import Finding
from stepscope.model.headline import headline
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.types import BottleneckType
from stepscope.session.inside import inside
from stepscope.session.lines import line_evidence
from stepscope.session.profile import Profile
from stepscope.session.sampled import Sampled
from stepscope.session.wishes import Wishes

__all__ = ["BottleneckSession", "Config"]

_FRESH_NS = 50_000_000  # what was found so far is looked at again after so long, or
_COST_SHARE = 100  # after so many times what looking took
_MEMORY, _GPU_MEMORY = "host_memory_ratio", "gpu_memory_ratio"  # metrics, as rules know them
_used: set[str] = set()  # ids


class Config(Protocol):
    """What is read of a BottleneckProfilerConfig."""

    @property
    def profiling_level(self) -> Level: ...
    @property
    def interval_s(self) -> float: ...
    @property
    def thresholds(self) -> tuple[float, float, float]: ...
    @property
    def enable_real_time_monitoring(self) -> bool: ...
    @property
    def enable_memory_tracking(self) -> bool: ...
    @property
    def enable_gpu_tracking(self) -> bool: ...
    @property
    def enable_cpu_tracking(self) -> bool: ...
    @property
    def enable_io_tracking(self) -> bool: ...
    @property
    def bottleneck_threshold(self) -> float: ...
    @property
    def memory_threshold(self) -> float: ...
    @property
    def gpu_threshold(self) -> float: ...
    @property
    def max_samples(self) -> int: ...


class BottleneckSession:
    """From `open` to `close`. `result` at any time. Nothing of `config` may change meanwhile."""

    def __init__(self, name: str, config: Config) -> None:
        self._config, self._depth = config, config.profiling_level.depth
        self._thresholds = Thresholds(*config.thresholds)
        self._types: dict[str, BottleneckType] = {}
        wishes = Wishes(
            gpu=config.enable_gpu_tracking,
            hooks=self._depth.hooks,
            interval_s=config.interval_s,
            keep=config.max_samples,
        )
        self._engine = inside(wishes.hooks)
        self._profile = Profile(wishes._replace(lines=self._depth.lines))
        self._whole = Profile(wishes)
        self._nesting = NestingFold(self._profile.identity(""))
        self.start_time = datetime.now(UTC).astimezone()
        self.session_id = _new_id(name, self.start_time)
        self._block = self._whole.block(self.session_id)
        self._sampled = Sampled(
            self._engine.recorder.now_ns(),
            {_MEMORY: config.memory_threshold, _GPU_MEMORY: config.gpu_threshold},
        )
        self._result: ProfilingSession | None = None
        self._so_far: ProfilingSession | None = None
        self._fresh_until_ns = 0

    def open(self) -> None:
        """The block comes last: what it takes to begin is not the session's."""
        self._engine.follow(self._nesting)
        if self._config.enable_real_time_monitoring:
            self._engine.follow(self._sampled)
        self.start_time = datetime.now(UTC).astimezone()
        self._block.open()

    @property
    def is_open(self) -> bool:
        return self._result is None

    def operation(self, name: Any, of: Any) -> AbstractContextManager[Any]:
        """A run of an operation; its type is the one that it was first given."""
        if not isinstance(of, BottleneckType):
            raise UsageError(
                f"An operation has a BottleneckType, not {of!r}; "
                "BottleneckType.register('my_type') adds one of your own."
            )
        make = self._profile.maker(name)
        self._types.setdefault(name, of)
        return make()

    def close(self) -> ProfilingSession:
        """End it; the same result again from then on."""
        if self._result is None:
            use = self._block.close()
            self._engine.unfollow(self._nesting)
            self._engine.unfollow(self._sampled)
            end_time = self.start_time + timedelta(microseconds=use.wall_ns / 1e3)
            self._result = replace(self._made(use, is_over=True), end_time=end_time)
        return self._result

    def result(self) -> ProfilingSession:
        """So far, or of the whole when it is closed. Looked at anew when the last time is long
        enough ago: asking in every step is cheap."""
        if self._result is not None:
            return self._result
        now_ns = self._engine.recorder.now_ns
        began_ns = now_ns()
        if self._so_far is None or began_ns >= self._fresh_until_ns:
            self._so_far = self._made(self._block.use())
            ended_ns = now_ns()
            self._fresh_until_ns = ended_ns + max(_FRESH_NS, _COST_SHARE * (ended_ns - began_ns))
        return self._so_far

    def _made(self, use: OperationUse, is_over: bool = False) -> ProfilingSession:
        with self._engine.lock:  # the sampler's thread takes in what is new
            return self._measured(use, is_over)

    def _measured(self, use: OperationUse, is_over: bool) -> ProfilingSession:
        config, gauges = self._config, self._sampled.gauges
        metrics = self._whole.measured(use)
        records = self._records()
        bottlenecks: tuple[BottleneckProfile, ...] = ()
        verdict = ""
        if self._depth.bottlenecks:
            bottlenecks, verdict = self._judged(use, metrics, records, is_over)
        memory, gpu = config.enable_memory_tracking, config.enable_gpu_tracking
        return ProfilingSession(
            session_id=self.session_id,
            start_time=self.start_time,
            performance_metrics=_figures(metrics, config),
            bottlenecks=bottlenecks,
            memory_profile=gauges.seconds(gauges.memory, 100.0) if memory else {},
            gpu_profile=gauges.seconds(gauges.gpu, 100.0) if gpu else {},
            operations={one.name: one.metrics for one in records},
            verdict=verdict,
            notes=metrics.notes,
        )

    def _judged(
        self,
        use: OperationUse,
        metrics: PerformanceMetrics,
        records: list[OperationRecord],
        is_over: bool,
    ) -> tuple[tuple[BottleneckProfile, ...], str]:
        """(what stood in the way, the worst first; the verdict)"""
        loop = self._block.summary() if self._depth.hooks else None
        in_loop = list(loop.findings) if loop is not None else []
        steps = loop.steps.count if loop is not None and in_loop else 0
        found = in_loop or advise(block_findings(use, self._thresholds))
        bottlenecks = [
            *self._operations(records, use, is_over),
            *self._memory(use, metrics),
            *finding_bottlenecks(
                self._tracked(found),
                metrics,
                self._config.bottleneck_threshold,
                steps=steps,
                named=bool(records),
            ),
        ]
        verdict = headline(found)
        said = "" if verdict is None else f"{verdict.title[:1].upper()}{verdict.title[1:]}."
        return worst_first(bottlenecks), said

    def _records(self) -> list[OperationRecord]:
        profile = self._profile
        names = profile.names()
        walls_ns = {profile.identity(n): round(s * 1e9) for n, s in profile.walls_s().items()}
        own_ns = self._nesting.own_ns(walls_ns)
        return [
            OperationRecord(
                name,
                self._types.get(name, BottleneckType.CPU_COMPUTATION),
                profile.metrics(name),
                own_ns[profile.identity(name)],
            )
            for name in names
        ]

    def _operations(
        self, records: list[OperationRecord], use: OperationUse, is_over: bool
    ) -> Iterator[BottleneckProfile]:
        metrics = {one.name: one.metrics for one in records}
        share = self._config.bottleneck_threshold
        for one in operation_bottlenecks(records, use.wall_ns, share):
            of = metrics[one.operation_name]
            advice = suggest(one.bottleneck_type, of, use.resources.cpu_count)
            evidence = one.evidence
            if self._depth.lines and is_over:
                evidence += tuple(line_evidence(self._profile.line_profile(one.operation_name)))
            yield replace(one, suggestions=advice, evidence=evidence)

    def _memory(
        self, use: OperationUse, metrics: PerformanceMetrics
    ) -> Iterator[BottleneckProfile]:
        """Thresholds that were passed while the session ran."""
        config = self._config
        if not config.enable_real_time_monitoring:
            return
        if config.enable_memory_tracking:
            passed = self._sampled.crossing(_MEMORY)
            total = use.resources.memory_total_bytes
            own = use.peak_rss_bytes
            found = memory_bottleneck(
                "high_memory_usage", "the machine's memory", passed, total, own
            )
            if found is not None:
                advice = suggest_memory(metrics.peak_ram_mb, found.memory_usage)
                yield replace(found, suggestions=advice)
        if config.enable_gpu_tracking:
            passed = self._sampled.crossing(_GPU_MEMORY)
            gpu = max(
                use.resources.gpus, key=lambda one: one.memory_used_bytes or 0.0, default=None
            )
            total = None if gpu is None else gpu.memory_total_bytes
            own = None if gpu is None else gpu.reserved_bytes or gpu.peak_allocated_bytes
            found = memory_bottleneck("high_gpu_memory_usage", "a GPU's memory", passed, total, own)
            if found is not None:
                advice = suggest_memory(metrics.peak_gpu_mb, None)
                own_mb = metrics.peak_gpu_mb
                yield replace(found, suggestions=advice, memory_usage=None, gpu_memory_usage=own_mb)

    def _tracked(self, found: list[Finding]) -> list[Finding]:
        """Memory is judged by `_memory`, where it was watched, and not where nobody wants it."""
        config = self._config
        if config.enable_real_time_monitoring or not config.enable_memory_tracking:
            return [one for one in found if one.kind != "memory-pressure"]
        return found


def _figures(metrics: PerformanceMetrics, config: Config) -> dict[str, float | None]:
    """The document's names where it has one."""
    found: dict[str, float | None] = {
        "total_time": metrics.execution_time,
        "cpu_time": metrics.cpu_time,
    }
    if config.enable_cpu_tracking:
        found |= {"cpu_usage": metrics.cpu_usage, "host_cpu_usage": metrics.host_cpu_percent}
    if config.enable_memory_tracking:
        found |= {"memory_usage": metrics.host_memory_percent, "memory_mb": metrics.final_ram_mb}
        found |= {"peak_memory_mb": metrics.peak_ram_mb}
    if config.enable_gpu_tracking:
        found |= {"gpu_usage": metrics.gpu_usage, "peak_gpu_memory_mb": metrics.peak_gpu_mb}
    if config.enable_io_tracking:
        found |= {"disk_read_mb": metrics.disk_read_mb, "disk_write_mb": metrics.disk_write_mb}
        found |= {"disk_busy_percent": metrics.disk_io_percent}
        found |= {"network_mb": metrics.network_io_mb}
    return found


def _new_id(name: Any, start: datetime) -> str:
    """The name and the time; with a number behind it where two begin in the same second."""
    if not isinstance(name, str) or not name or not set(name).isdisjoint("/\\\0"):
        raise UsageError(f"A session is named by a text without slashes, not {name!r}.")
    first = f"{name}_{start:%Y%m%d_%H%M%S}"
    found = next(
        one
        for one in (first if n == 1 else f"{first}_{n}" for n in count(1))
        if one not in _used
    )  # fmt: skip
    _used.add(found)
    return found
