"""The engine behind PreprocessingProfiler: calls a function, and reads what that took."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from stepscope.advise.catalogue import advise
from stepscope.advise.operations import suggest
from stepscope.analyze.block import Thresholds, block_findings
from stepscope.collect.digest import batch_of, digest, shape_of
from stepscope.collect.loading import settle, undisturbed
from stepscope.config import Level
from stepscope.model.loading import PreprocessingProfile
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.types import BottleneckType
from stepscope.session.inside import inside
from stepscope.session.lines import at_hottest_line
from stepscope.session.profile import Profile
from stepscope.session.wishes import Wishes

__all__ = ["Cache", "batch_of", "profile_function"]

_CALL, _LOOKUP = "call", "cache lookup"
_SURE_GAIN = 0.5  # of a call: from there on keeping results is advised


class Config(Protocol):
    """What is read of a BottleneckProfilerConfig."""

    @property
    def profiling_level(self) -> Level: ...
    @property
    def interval_s(self) -> float: ...
    @property
    def thresholds(self) -> tuple[float, float, float]: ...
    @property
    def enable_gpu_tracking(self) -> bool: ...
    @property
    def enable_caching(self) -> bool: ...


class Cache:
    """Results by function and content of the input; what was used longest ago goes first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._known: OrderedDict[tuple[int, bytes], tuple[Any, Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, function: Any, key: bytes) -> tuple[bool, Any]:
        """(whether it is known, the result)"""
        place = id(function), key
        if place not in self._known:
            return False, None
        self._known.move_to_end(place)
        return True, self._known[place][1]

    def put(self, function: Any, key: bytes, result: Any) -> None:
        self._known[id(function), key] = (
            function,
            result,
        )  # as long as it is kept, the id is its own
        if len(self._known) > self.size:
            self._known.popitem(last=False)


class _Traits(NamedTuple):
    """What two calls before the measurement showed."""

    deterministic: bool | None
    changes_input: bool | None
    key: bytes | None


def profile_function(
    name: str,
    function: Callable[[Any], Any],
    data: Any,
    iterations: int,
    config: Config,
    cache: Cache,
) -> PreprocessingProfile:
    """Every one of the calls is made and measured; the cache is measured apart. Random numbers that
    it draws are put back."""
    with undisturbed(None):
        return _profile(name, function, data, iterations, config, cache)


def _profile(
    name: str,
    function: Callable[[Any], Any],
    data: Any,
    iterations: int,
    config: Config,
    cache: Cache,
) -> PreprocessingProfile:
    depth = config.profiling_level.depth
    wishes = Wishes(
        gpu=config.enable_gpu_tracking,
        hooks=depth.hooks,
        lines=depth.lines,
        interval_s=config.interval_s,
    )
    traits, result = _traits(function, data)
    profile, session = Profile(wishes), inside(wishes.hooks)
    session.look()
    run = profile.maker(_CALL)
    for _ in range(iterations):
        with run():
            function(data)
            settle()
    session.look()
    metrics = profile.metrics(_CALL)
    use = session.use(profile.identity(_CALL))
    hits, misses = 0, 0
    if config.enable_caching:
        hits, misses = _look_up(profile, cache, traits, function, data, result, iterations)
    lookup_s = profile.metrics(_LOOKUP).execution_time if hits + misses else None
    found = []
    if depth.bottlenecks and use is not None:
        found = advise(block_findings(use, Thresholds(*config.thresholds)))
    if depth.lines:
        found = [at_hottest_line(one, profile.line_profile(_CALL)) for one in found]
    cpus = None if use is None else use.resources.cpu_count
    call_s = (metrics.execution_time or 0.0) / iterations
    made = PreprocessingProfile(
        operation_name=name,
        num_iterations=iterations,
        execution_time=call_s,
        min_time=metrics.shortest_time,
        max_time=metrics.longest_time,
        throughput=1.0 / call_s if call_s else None,
        input_shape=shape_of(data),
        memory_usage_mb=metrics.peak_ram_mb,
        gpu_memory_usage_mb=metrics.peak_gpu_mb,
        cpu_usage_percent=metrics.cpu_usage,
        cpu_time=metrics.cpu_time,
        findings=tuple(found),
        suggestions=_suggestions(metrics, cpus) if depth.bottlenecks else (),
        cache_hits=hits,
        cache_misses=misses,
        cache_lookup_time=None if lookup_s is None else lookup_s / (hits + misses),
        is_deterministic=traits.deterministic,
        changes_input=traits.changes_input,
    )
    return _with_notes(made, config, traits, metrics)


def _traits(function: Callable[[Any], Any], data: Any) -> tuple[_Traits, Any]:
    """Two calls that are not measured: the first one of a function is often unlike the others."""
    key = digest(data)
    result = function(data)
    after = digest(data)
    changes = None if key is None or after is None else key != after
    if changes is not False:
        return _Traits(None, changes, None), result
    first, second = digest(result), digest(function(data))
    same = None if first is None or second is None else first == second
    return _Traits(same, changes, key), result


def _look_up(
    profile: Profile,
    cache: Cache,
    traits: _Traits,
    function: Any,
    data: Any,
    result: Any,
    times: int,
) -> tuple[int, int]:
    """As a program would with a cache: digest the input, look, and keep what is new."""
    if not traits.deterministic or traits.key is None:
        return 0, 0
    hits = misses = 0
    run = profile.maker(_LOOKUP)
    for _ in range(times):
        with run():
            key = digest(data)
            found, _known = cache.get(function, key) if key is not None else (False, None)
        hits, misses = hits + found, misses + (not found)
        if not found and key is not None:
            cache.put(function, key, result)
    return hits, misses


def _suggestions(metrics: PerformanceMetrics, cpus: float | None) -> tuple[str, ...]:
    return suggest(BottleneckType.PREPROCESSING, metrics, cpus)


def _with_notes(
    made: PreprocessingProfile, config: Config, traits: _Traits, metrics: PerformanceMetrics
) -> PreprocessingProfile:
    from dataclasses import replace

    suggestions, gain = made.suggestions, made.cache_gain
    if gain is not None and gain >= _SURE_GAIN and made.cache_hits:
        advice = f"Keep results: a known input costs {1 - gain:.0%} of a call"
        suggestions = (advice, *suggestions)
    notes = (*_remarks(config, traits), *metrics.notes)
    return replace(made, suggestions=suggestions, notes=notes)


def _remarks(config: Config, traits: _Traits) -> Iterator[str]:
    if traits.changes_input:
        yield "It changes its input: calls after the first one saw other data."
    if config.enable_caching and traits.changes_input:
        yield "Results were not kept: it changes its input."
    elif config.enable_caching and traits.deterministic is False:
        yield "Results were not kept: two calls with the same input gave different ones."
    elif config.enable_caching and not traits.deterministic:
        yield "Results were not kept: input or results cannot be compared."
