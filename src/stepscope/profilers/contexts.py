"""`profile_context` and `@profile_function()`: the short ways to name a block."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeVar

from stepscope.config import Settings
from stepscope.errors import NoResultsError, UsageError
from stepscope.model.finding import Finding
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.own_code import hide_own_frames
from stepscope.profilers.blocks import disabled_metrics
from stepscope.profilers.config import ProfilingConfig
from stepscope.session.blocks import BlockProfile
from stepscope.session.keep import save_here
from stepscope.session.now import Nothing, nothing
from stepscope.session.profile import Profile
from stepscope.session.wishes import Wishes

__all__ = ["ProfileContext", "profile_context", "profile_function"]

_F = TypeVar("_F", bound=Callable[..., Any])


class ProfileContext:
    """A block with a name. See `profile_context`."""

    def __init__(self, name: Any, config: ProfilingConfig) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError(f"A context is named by a text that is not empty, not {name!r}.")
        self.name = name
        self.config = config
        self._block = BlockProfile(name, self.config, gpu=True)
        self._metrics: PerformanceMetrics | None = None
        self.bottlenecks: list[Finding] = []

    def __enter__(self) -> ProfileContext:
        if self._block.is_open:
            raise UsageError(f"The context {self.name!r} is entered already: make another one.")
        self._block.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        if self._block.is_open:
            self._metrics, self.bottlenecks = self._block.close(kind)
        return False

    @property
    def current_metrics(self) -> PerformanceMetrics:
        """So far, while it runs; measured anew every 50 ms at most, so asking often is cheap."""
        return self._block.so_far() if self._block.is_open else self.metrics

    @property
    def metrics(self) -> PerformanceMetrics:
        """Of the whole block, when it has ended."""
        if self._metrics is None:
            raise NoResultsError(
                f"The context {self.name!r} has not ended yet: see current_metrics."
            )
        return self._metrics

    def save(self, path: str | Path | None = None, name: str = "") -> Path:
        """Keep everything that this process recorded as a run, for `stepscope report`."""
        return save_here(path, name)


class _Disabled(Nothing):  # type: ignore[misc]
    """What `enabled=False` gives: nothing is measured, and nothing is above any threshold."""

    name = ""
    bottlenecks: ClassVar[list[Finding]] = []
    current_metrics = metrics = disabled_metrics()


_disabled = _Disabled()
_Disabled.__enter__ = _disabled  # called, it gives itself; a function would have to be bound first


def profile_context(name: str, config: ProfilingConfig | None = None) -> ProfileContext:
    """A block with a name: `current_metrics` while it runs, `metrics` and `bottlenecks` after it.

    >>> with profile_context("sum") as profiler:
    ...     total = sum(range(1000))
    >>> profiler.metrics.calls
    1
    """
    if config is None:
        return ProfileContext(name, ProfilingConfig())
    return ProfileContext(name, config) if config.enabled else _disabled


def profile_function(
    config: ProfilingConfig | None = None, *, name: str | None = None
) -> Callable[[_F], _F]:
    """Measures every call of a function; `function.get_metrics()` tells what they took.

    Functions, methods and coroutines: one run is one call, a coroutine's from its start to its end,
    waiting included. Generators: only what runs inside them counts, so that each resumption is a
    run. `sampling_rate` of the configuration: how many of the calls are measured.
    """
    if config is not None and not isinstance(config, ProfilingConfig):
        raise UsageError("Use it with brackets: @profile_function() or @profile_function(config).")
    chosen = config or ProfilingConfig()

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        if not callable(function) or isinstance(function, type):
            raise UsageError(f"@profile_function() goes on a function, not on {function!r}.")
        if not chosen.enabled:
            return function
        label = name or str(getattr(function, "__qualname__", repr(function)))
        calls = _Calls(label, chosen)
        wrapped = _wrap(function, calls)
        wrapped.get_metrics = calls.metrics
        return wrapped

    return decorate


class _Calls:
    """Gives each call of a function its run, or nothing where the call is left out.

    Every decorated function is an operation of its own, whatever others are called.
    """

    def __init__(self, name: str, config: ProfilingConfig) -> None:
        interval_s = Settings(level=config.level).system_interval_s
        self._wishes = Wishes(interval_s=interval_s, keep=config.max_samples)
        self._name, self._rate = name, config.sampling_rate
        self._random = Random().random  # the program's own numbers stay as they are
        self._profile: Profile | None = None
        self._make: Callable[[], AbstractContextManager[Any]] = self._first

    def _first(self) -> AbstractContextManager[Any]:
        """Decorating is free: the first call sets everything up."""
        if self._profile is None:
            self._profile = Profile(self._wishes)
        self._make = self._profile.maker(self._name)
        return self._make()

    def run(self) -> AbstractContextManager[Any]:
        if self._rate < 1.0 and self._random() >= self._rate:
            return nothing  # type: ignore[no-any-return]
        return self._make()

    def metrics(self) -> PerformanceMetrics:
        """Of all calls that were measured. NoResultsError: none was."""
        if self._profile is None:
            raise NoResultsError(f"{self._name} was not called yet: there are no metrics of it.")
        return self._profile.metrics(self._name)


def _wrap(function: Any, calls: _Calls) -> Any:
    if inspect.isasyncgenfunction(function):
        return _wrap_async_generator(function, calls)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            try:
                with calls.run():
                    return await function(*args, **kwargs)
            except BaseException:
                hide_own_frames()
                raise

        return coroutine
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, calls)
    run = calls.run

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            with run():
                return function(*args, **kwargs)
        except BaseException:
            hide_own_frames()
            raise

    return plain


def _wrap_generator(function: Any, calls: _Calls) -> Any:
    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        resume, given = inner.send, None
        while True:
            with calls.run():
                try:
                    item = resume(given)
                except StopIteration as end:
                    return end.value
                except BaseException:
                    hide_own_frames()
                    raise
            try:
                given = yield item
                resume = inner.send
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to the inner one
                resume, given = inner.throw, error

    return generator


def _wrap_async_generator(function: Any, calls: _Calls) -> Any:
    @functools.wraps(function)
    async def generator(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        resume, given = inner.asend, None
        while True:
            with calls.run():
                try:
                    item = await resume(given)
                except StopAsyncIteration:
                    return
                except BaseException:
                    hide_own_frames()
                    raise
            try:
                given = yield item
                resume = inner.asend
            except GeneratorExit:
                await inner.aclose()
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to the inner one
                resume, given = inner.athrow, error

    return generator
