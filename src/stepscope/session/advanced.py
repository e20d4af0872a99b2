"""The engine behind AdvancedProfiler: one block, seen from the CPU, the GPU and the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple, Protocol

from stepscope.advise.catalogue import recommend
from stepscope.model.finding import Finding
from stepscope.model.loading import DataLoadingProfile
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.optimization import StepCosts
from stepscope.model.phases import Phase
from stepscope.model.strict_json import strict_json
from stepscope.model.summary import Summary
from stepscope.session.blocks import BlockProfile, Tracing
from stepscope.session.blocks import Config as BlockConfig

__all__ = ["AdvancedBlock", "Measured", "Seen", "data_metrics", "plain_finding", "recommendations"]

_TRAINING = ("optimizer", "backward")  # how the steps of a training loop are found
_MOST_FUNCTIONS, _MOST_SAMPLES = 100, 8
_NO_DATA = "No training loop ran and no loader was profiled: there are no figures of data loading."


class Config(BlockConfig, Protocol):
    """What is read of a ProfilingConfig."""

    @property
    def enable_tracemalloc(self) -> bool: ...


class Measured(NamedTuple):
    """From start to stop. `loop`: of the training that ran within it; None: there was none."""

    combined: PerformanceMetrics
    findings: list[Finding]
    loop: Summary | None

    @property
    def cpu(self) -> PerformanceMetrics:
        """Without what is a GPU's."""
        notes = tuple(note for note in self.combined.notes if "GPU" not in note)
        no_gpu: dict[str, Any] = dict.fromkeys(("gpu_time", "gpu_usage", "peak_gpu_mb"))
        return replace(self.combined, operation="cpu", notes=notes, **no_gpu)

    @property
    def gpu(self) -> PerformanceMetrics:
        """None for everything where there is no GPU, and a note that says so."""
        whole = self.combined
        return PerformanceMetrics(
            operation="gpu",
            execution_time=whole.execution_time,
            gpu_time=whole.gpu_time,
            gpu_usage=whole.gpu_usage,
            peak_gpu_mb=whole.peak_gpu_mb,
            notes=tuple(note for note in whole.notes if "GPU" in note),
        )

    @property
    def step(self) -> StepCosts | None:
        """What training takes for a batch, beside getting it; None: no training ran."""
        if self.loop is None or not self.loop.steps.count:
            return None
        batches = self.loop.steps.micro_batches or self.loop.steps.count
        waiting = _phase(self.loop, Phase.INPUT_WAIT)
        wall_s = max(0.0, self.loop.wall_ms - waiting.ms) / 1e3
        cores = (self.loop.resources.get("program") or {}).get("cpu_cores")
        if cores is None:
            return StepCosts(wall_s / batches, wall_s / batches)
        cpu_s = cores * self.loop.wall_ms / 1e3 - (waiting.cpu_ms or 0.0) / 1e3
        return StepCosts(wall_s / batches, max(0.0, cpu_s) / batches)


class AdvancedBlock:
    """Opened and closed any number of times, within others of its kind or not."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._block = BlockProfile("advanced", config, gpu=True)
        self._tracing = Tracing()

    @property
    def is_open(self) -> bool:
        return self._block.is_open

    def open(self) -> None:
        self._tracing.start(wanted=self._config.enable_tracemalloc)
        self._block.open()

    def close(self) -> Measured:
        metrics, found = self._block.close()
        found = [_advised(one) for one in found]
        if found:
            metrics = replace(
                metrics,
                bottleneck_type=found[0].bottleneck_type,
                bottleneck_severity=found[0].severity,
            )
        loop = self._block.summary
        trained = loop is not None and loop.steps.found_by in _TRAINING
        return Measured(metrics, found, loop if trained else None)

    def so_far(self) -> PerformanceMetrics:
        return self._block.so_far()


class Seen:
    """What a profiler saw of the program, for whoever optimises it."""

    def __init__(self) -> None:
        self.step: StepCosts | None = None  # of the last training that ran
        self._samples: dict[int, tuple[Callable[[Any], Any], list[Any]]] = {}

    def add_sample(self, function: Callable[[Any], Any], data: Any) -> None:
        """Inputs that the user gave for it; the last ones are kept."""
        _, samples = self._samples.setdefault(id(function), (function, []))
        samples.append(data)
        del samples[:-_MOST_SAMPLES]
        while len(self._samples) > _MOST_FUNCTIONS:
            del self._samples[next(iter(self._samples))]

    def samples_of(self, function: Callable[[Any], Any]) -> list[Any]:
        return list(self._samples.get(id(function), (function, []))[1])

    def functions(self) -> list[tuple[Callable[[Any], Any], list[Any]]]:
        return [(function, list(samples)) for function, samples in self._samples.values()]


def data_metrics(
    loop: Summary | None, profiles: Sequence[DataLoadingProfile]
) -> PerformanceMetrics:
    """What the training loop waited for its loaders; without one, what the loaders that were
    profiled took."""
    if loop is not None:
        waiting = _phase(loop, Phase.INPUT_WAIT)
        return PerformanceMetrics(
            operation="data",
            calls=loop.steps.micro_batches or loop.steps.count,
            execution_time=waiting.ms / 1e3,
            cpu_time=None if waiting.cpu_ms is None else waiting.cpu_ms / 1e3,
            notes=(f"The training loop waited {waiting.share:.0%} of its time for its data.",),
        )
    timed = [one for one in profiles if one.avg_batch_time]
    if not timed:
        return PerformanceMetrics(operation="data", notes=(_NO_DATA,))
    last = timed[-1]
    return PerformanceMetrics(
        operation="data",
        calls=sum(one.num_batches for one in timed),
        execution_time=sum((one.avg_batch_time or 0.0) * one.num_batches for one in timed),
        shortest_time=_least(one.min_batch_time for one in timed),
        longest_time=_most(one.max_batch_time for one in timed),
        cpu_usage=last.cpu_usage_percent,
        peak_ram_mb=_most(one.memory_usage_mb for one in timed),
        notes=(f"No training loop ran: {len(timed)} loaders were iterated by themselves.",),
    )


def recommendations(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """What to do, the largest expected gain first; plain JSON."""
    found = []
    for finding in findings:
        advice = _advised(finding).recommendation
        if advice is None:
            continue
        speedup = advice.expected_speedup
        found.append(
            {
                "kind": finding.kind,
                "title": advice.title,
                "action": advice.action,
                "expected_speedup": None if speedup is None else list(speedup),
                "risk": advice.risk,
                "severity": finding.severity,
                "location": {k: v for k, v in asdict(finding.location).items() if v is not None},
            }
        )
    return sorted(found, key=lambda one: (-_gain(one["expected_speedup"]), -one["severity"]))


def plain_finding(finding: Finding) -> dict[str, Any]:
    """Plain JSON."""
    plain = asdict(finding) | {"bottleneck_type": finding.bottleneck_type.value}
    return dict(strict_json(plain))


def _gain(speedup: Sequence[float] | None) -> float:
    return math.sqrt(speedup[0] * speedup[1]) if speedup else 0.0


def _advised(finding: Finding) -> Finding:
    if finding.recommendation is not None:
        return finding
    return replace(finding, recommendation=recommend(finding))


def _phase(loop: Summary, phase: Phase) -> Any:
    return next(part for part in loop.breakdown if part.phase == phase)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
