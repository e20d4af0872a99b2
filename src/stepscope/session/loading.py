"""The engine behind DataLoadingProfiler: iterates a loader by itself, and reads what that took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from stepscope.advise.loading import best_profile, suggest_loading, with_best_workers
from stepscope.analyze.judge import own_part
from stepscope.analyze.loading import loading_limits
from stepscope.analyze.operations import OperationUse
from stepscope.collect.loading import batch_samples, make_loader, settings_of, undisturbed
from stepscope.config import Level
from stepscope.model.details import Pipeline
from stepscope.model.finding import Finding
from stepscope.model.loading import DataLoadingProfile, LoadingFigures
from stepscope.model.metrics import MB, PerformanceMetrics
from stepscope.model.phases import Phase
from stepscope.model.summary import Summary
from stepscope.session.inside import inside
from stepscope.session.lines import at_hottest_line
from stepscope.session.profile import Profile
from stepscope.session.wishes import Wishes

__all__ = ["Config", "best_profile", "make_loader", "profile_loader"]

_END = object()
_ITER, _FIRST, _AHEAD, _BATCH = "iter", "first batches", "batches ahead", "batch"


class Config(Protocol):
    """What is read of a BottleneckProfilerConfig."""

    @property
    def profiling_level(self) -> Level: ...
    @property
    def interval_s(self) -> float: ...
    @property
    def enable_gpu_tracking(self) -> bool: ...
    @property
    def memory_threshold(self) -> float: ...


class _Taken(NamedTuple):
    """Some batches in a row."""

    batches: int
    samples: int | None  # None: some could not be counted
    start_ns: int
    end_ns: int  # of the last batch
    ended: bool  # there were no more

    @property
    def wall_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def profile_loader(
    loader: Any, num_batches: int, config: Config, step_s: float | None = None
) -> DataLoadingProfile:
    """Iterates it for so many batches after the first ones, which start the pipeline."""
    with undisturbed(loader) as mine:
        return _Look(mine, num_batches, config, step_s).profile()


class _Look:
    def __init__(self, loader: Any, num_batches: int, config: Config, step_s: float | None) -> None:
        self._loader, self._wanted, self._config, self._step_s = loader, num_batches, config, step_s
        self._settings = settings_of(loader)
        self._workers = int(self._settings.get("workers") or 0)
        self._depth = config.profiling_level.depth
        wishes = Wishes(
            gpu=config.enable_gpu_tracking, hooks=self._depth.hooks, interval_s=config.interval_s
        )
        # Where workers make the batches, this process only waits for them.
        self._has_lines = self._depth.lines and not self._workers
        self._profile = Profile(wishes._replace(lines=self._has_lines))
        self._whole = Profile(wishes)
        self._session = inside(wishes.hooks)

    def profile(self) -> DataLoadingProfile:
        block = self._whole.block("data_loading")
        block.open()
        failed: type[BaseException] | None = None
        try:
            with self._profile.maker(_ITER)():
                iterator = iter(self._loader)
            first, counted = self._taken(iterator)
        except BaseException as error:
            failed = type(error)
            raise
        finally:
            use = block.close(failed)  # its workers live: they are seen once more
        steady = self._session.use_then(use.identity, counted.start_ns, counted.end_ns)
        metrics = self._whole.measured(use)
        del iterator
        return self._made(_Seen(first, counted, use, steady, metrics, block.summary()))

    def _taken(self, iterator: Iterator[Any]) -> tuple[_Taken, _Taken]:
        """The batches that start the pipeline, and those that count. Workers deliver in bursts of
        one each: whole bursts are counted."""
        burst = max(1, self._workers)
        first = self._take(iterator, burst, _FIRST)
        wanted = -(-self._wanted // burst) * burst
        ahead = self._workers * int(self._settings.get("prefetch_factor") or 0)
        length = _length(self._loader)
        if not ahead:
            self._session.look()
        elif length is not None and length >= burst + ahead + wanted:
            # While we look, workers go on: what they have ready by then is left out too.
            self._session.look()
            self._take(iterator, ahead, _AHEAD)
        counted = self._take(iterator, wanted, _BATCH) if not first.ended else first
        return first, counted if counted.batches else first

    def _take(self, iterator: Iterator[Any], wanted: int, name: str) -> _Taken:
        make: Callable[[], AbstractContextManager[Any]] = self._profile.maker(name)
        now_ns = self._session.recorder.now_ns
        batches, samples, ended = 0, 0, False
        uncounted = False
        start_ns = end_ns = now_ns()
        while batches < wanted:
            with make():
                batch = next(iterator, _END)
            if batch is _END:
                ended = True
                break
            end_ns = now_ns()
            batches += 1
            held = batch_samples(batch)
            uncounted |= held is None
            samples += held or 0
        return _Taken(batches, None if uncounted else samples, start_ns, end_ns, ended)

    def _seconds(self, name: str) -> float:
        return self._profile.walls_s().get(name, 0.0)

    def _made(self, seen: _Seen) -> DataLoadingProfile:
        figures = with_best_workers(self._figures(seen))
        limits = loading_limits(figures) if self._depth.bottlenecks else []
        counted, settings = seen.counted, self._settings
        rate = 1.0 / figures.batch_s if figures.batch_s else None
        one = None
        if counted is not seen.first and counted.batches and not counted.ended:
            one = self._profile.metrics(_BATCH)
        per_batch = counted.samples / counted.batches if counted.samples else None
        bottlenecks = tuple(limit.bottleneck for limit in limits)
        children = seen.use.resources.children.peak_rss_bytes
        return DataLoadingProfile(
            batch_size=settings.get("batch_size"),
            num_workers=self._workers,
            pin_memory=bool(settings.get("pin_memory")),
            persistent_workers=bool(settings.get("persistent_workers")),
            prefetch_factor=settings.get("prefetch_factor"),
            num_batches=counted.batches,
            num_samples=counted.samples,
            avg_batch_time=figures.batch_s or None,
            min_batch_time=None if one is None else one.shortest_time,
            max_batch_time=None if one is None else one.longest_time,
            startup_seconds=figures.startup_s,
            throughput_batches_per_second=rate,
            throughput_samples_per_second=rate and per_batch and rate * per_batch,
            memory_usage_mb=seen.metrics.peak_ram_mb,
            worker_memory_mb=children / MB if children and self._workers else None,
            gpu_memory_usage_mb=seen.metrics.peak_gpu_mb,
            cpu_usage_percent=seen.metrics.cpu_usage,
            bottlenecks=bottlenecks,
            findings=tuple(self._located(limit.finding) for limit in limits),
            suggestions=suggest_loading(bottlenecks, figures) if self._depth.bottlenecks else (),
            pipeline=_pipeline(seen.loop),
            figures=figures,
            notes=tuple(self._notes(seen)),
        )

    def _located(self, finding: Finding) -> Finding:
        if not self._has_lines:
            return finding
        return at_hottest_line(finding, self._profile.line_profile(self._profile.last()))

    def _figures(self, seen: _Seen) -> LoadingFigures:
        counted, resources = seen.counted, seen.steady.resources
        makers = resources.children if self._workers else resources.program
        iter_s, first_s = self._seconds(_ITER), self._seconds(_FIRST)
        wall_s = counted.wall_s
        if counted is seen.first:  # there is nothing but the start
            wall_s, startup_s, cpu_of = wall_s + iter_s, 0.0, _FIRST
        else:
            batch_s = wall_s / counted.batches if counted.batches else 0.0
            startup_s = max(0.0, iter_s + first_s - seen.first.batches * batch_s)
            cpu_of = _BATCH
        total, available = resources.memory_total_bytes, resources.memory_available_bytes
        phases = {part.phase: part.share for part in seen.loop.breakdown}
        return LoadingFigures(
            workers=self._workers,
            batches=counted.batches,
            wall_s=wall_s,
            cpu_s=self._profile.metrics(cpu_of).cpu_time or 0.0,
            cpus=resources.cpu_count,
            program_cores=resources.program.cpu_cores,
            program_delay_cores=resources.program.run_delay_cores,
            children_cores=resources.children.cpu_cores,
            run_delay_cores=makers.run_delay_cores,
            read_bytes_per_s=makers.read_bytes_per_s,
            blocked_io_share=makers.blocked_io_share,
            memory_taken=None if not total or available is None else 1.0 - available / total,
            memory_threshold=self._config.memory_threshold,
            own_memory_share=own_part(
                seen.use.peak_rss_bytes,
                None if not total or available is None else total - available,
            ),
            transfer_share=phases.get(Phase.TRANSFER),
            startup_s=startup_s,
            total_s=seen.use.wall_ns / 1e9,
            pass_batches=_length(self._loader),
            step_s=self._step_s,
        )

    def _notes(self, seen: _Seen) -> Iterator[str]:
        if not self._settings:
            yield "It is no DataLoader: its settings are not known."
        if seen.counted is seen.first:
            yield "There were too few batches to leave out those that start the pipeline."
        elif seen.counted.ended:
            yield f"The data ended after {seen.counted.batches} of {self._wanted} batches."
        if seen.counted.samples is None:
            yield "Samples could not be counted: the batches hold no tensors or arrays."
        yield from seen.metrics.notes


class _Seen(NamedTuple):
    first: _Taken
    counted: _Taken
    use: OperationUse  # of everything
    steady: OperationUse  # of the counted batches
    metrics: PerformanceMetrics
    loop: Summary


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def _pipeline(loop: Summary) -> Pipeline | None:
    """The one place to take the stages within the workers from, once a summary has its details."""
    found = getattr(getattr(loop, "details", None), "pipeline", None)
    return found if isinstance(found, Pipeline) else None
