"""The engine behind CodeOptimizer.optimize_preprocessing: other ways, held to the same results."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from stepscope.collect.digest import digest
from stepscope.collect.loading import settle, undisturbed
from stepscope.model.optimization import LEAST_GAIN, Optimization
from stepscope.model.trial import Speedup
from stepscope.session.kept_results import KeepsResults, copied, size_bytes
from stepscope.session.proving import prove
from stepscope.tune.functions.alike import alike
from stepscope.tune.functions.compiled import Compiled, has_compiler
from stepscope.tune.functions.rows import RowsAtOnce, variants
from stepscope.tune.loading.randomness import Generators

__all__ = ["CACHE_BYTES", "OptimizedFunction", "Timer", "optimize_function"]

CACHE_BYTES = 256 * 2**20
_TIMED_S, _LEAST_CALLS = 0.03, 5  # calls are repeated for so long, and at least so often,
_MOST_S = 0.3  # unless that takes longer than this
_WORTH_COMPILING_S = 0.01  # a call: compiling takes half a minute, as long as thousands of these
_MOST_ASKING = 0.25  # of a call: what looking into the cache may cost an input that is new
_SURE_GAIN = 2.0  # of an input that is known; less does not make up for those that are not
Function = Callable[[Any], Any]
Timer = Callable[[Function, Sequence[Any]], float]


class OptimizedFunction(NamedTuple):
    """`function`: the program's own where nothing else was proved faster."""

    function: Function
    record: Optimization


def optimize_function(
    function: Function,
    samples: Sequence[Any],
    cache_bytes: int = CACHE_BYTES,
    timer: Timer | None = None,
) -> OptimizedFunction:
    """A function that gave equal results on all samples and was measured to be faster, or the same
    one and why. timer: seconds of a call over samples; None: really measured."""
    name = str(getattr(function, "__name__", type(function).__name__))
    base = Optimization(target="preprocessing", subject=name)
    try:
        with undisturbed(None):
            return _Optimizing(function, samples, cache_bytes, timer or _call_s, base).run()
    except Exception as error:  # noqa: BLE001 - the function is the user's
        why = f"Trying failed, so it stays as it is: {type(error).__name__}: {error}"
        return OptimizedFunction(function, replace(base, reason=why[:500]))


class _Way(NamedTuple):
    """Another function, how far its results are the same, and what it was measured to be."""

    name: str
    function: Function
    likeness: str
    speedup: Speedup | None
    before_s: float
    after_s: float


class _Optimizing:
    def __init__(
        self,
        function: Function,
        samples: Sequence[Any],
        cache_bytes: int,
        timer: Timer,
        base: Optimization,
    ) -> None:
        self._function, self._samples, self._base = function, samples, base
        self._cache_bytes, self._timer = cache_bytes, timer
        self._tried: dict[str, float | None] = {}
        self._refused: list[str] = []

    def run(self) -> OptimizedFunction:
        if reason := self._why_not():
            return OptimizedFunction(self._function, replace(self._base, reason=reason))
        self._tried["as it is"] = call_s = self._timer(self._function, self._samples)
        ways: dict[str, type[RowsAtOnce | Compiled]] = {"all rows at once": RowsAtOnce}
        if call_s >= _WORTH_COMPILING_S and has_compiler() and self._computes():
            ways["compiled"] = Compiled
        for name, kind in ways.items():
            way = self._try(name, partial(kind, self._function, self._samples[0]))
            if way is not None and way.speedup is not None and way.speedup.is_proved(LEAST_GAIN):
                return self._kept(way)
        way = self._try("results kept", self._cached)
        if way is not None and self._is_worth_keeping(way, call_s):
            return self._kept(way)
        return self._stays()

    def _why_not(self) -> str:
        if not self._samples:
            return "There is no sample of its input: call profile_preprocessing(func, data) first."
        for data in self._samples:
            before, generators = digest(data), Generators()
            first = self._function(data)
            if generators.drawn():
                return "It draws random numbers: whether another way gives the same cannot be told."
            if before is None or digest(data) is None:
                return "Its input cannot be compared: whether it changes it cannot be told."
            if digest(data) != before:
                return "It changes its input."
            if not alike(first, self._function(data)):
                return "Two calls with the same input gave different results, or none to compare."
        return ""

    def _computes(self) -> bool:
        """Rather than waits: a compiler makes waiting no shorter."""
        began, began_cpu = time.perf_counter(), time.process_time()
        for data in self._samples:
            self._function(data)
        return time.process_time() - began_cpu >= 0.5 * (time.perf_counter() - began)

    def _try(self, name: str, make: Callable[[], Function]) -> _Way | None:
        """None: it does not work, does not give the same, or warns."""
        try:
            with _strict():
                other = make()
                likeness = self._likeness(other)
                if not likeness:
                    self._refused.append(f"{name}: not the same results")
                    self._tried[name] = None
                    return None
                speedup, before, after = prove(
                    lambda: self._timer(self._function, self._samples),
                    lambda: self._timer(other, self._samples),
                )
        except Exception as error:  # noqa: BLE001 - torch's or the user's: this way is closed
            self._refused.append(f"{name}: {type(error).__name__}")
            self._tried[name] = None
            return None
        way = _Way(
            name, other, likeness, speedup, statistics.median(before), statistics.median(after)
        )
        self._tried[name] = way.after_s
        if speedup is not None and not speedup.is_proved(LEAST_GAIN):
            self._refused.append(f"{name}: {speedup}")
        return way

    def _likeness(self, other: Function) -> str:
        worst = ""
        for sample in self._samples:
            for data in variants(sample):
                found = alike(self._function(data), other(data))
                if not found:
                    return ""
                worst = max(worst, found)  # "up to the …" comes after "to the bit"
        return worst

    def _cached(self) -> Function:
        results = [self._function(data) for data in self._samples]
        if any(getattr(one, "requires_grad", False) for one in results):
            raise TypeError("results of autograd cannot be kept")
        return KeepsResults(self._function, self._cache_bytes, max(map(size_bytes, results)))

    def _is_worth_keeping(self, way: _Way, call_s: float) -> bool:
        """A known input has to gain much, and a new one to lose little."""
        if way.speedup is None or not way.speedup.is_proved(LEAST_GAIN):
            return False
        results = {id(data): self._function(data) for data in self._samples}
        asking_s = self._timer(
            lambda data: (digest(data), copied(results[id(data)])), self._samples
        )
        if way.speedup.low < _SURE_GAIN or asking_s > _MOST_ASKING * call_s:
            self._refused.append(
                f"{way.name}: a known input is {way.speedup}, a new one costs"
                f" {asking_s / call_s:.0%} more"
            )
            return False
        return True

    def _kept(self, way: _Way) -> OptimizedFunction:
        notes = [f"Its results are the same {way.likeness}, on {len(self._samples)} samples."]
        if isinstance(way.function, KeepsResults):
            notes.append(
                "That is an input that was seen before; results take"
                f" {self._cache_bytes / 2**20:.0f} MiB at most in each process."
            )
        record = replace(
            self._base,
            kept=True,
            change=way.name,
            reason=f"It was measured to be {way.speedup}.",
            measured=way.speedup,
            before={"call_s": way.before_s},
            after={"call_s": way.after_s},
            tried=self._tried,
            notes=tuple(notes),
            undo="Use the function that was given, `function.__wrapped__`.",
        )
        return OptimizedFunction(way.function, record)

    def _stays(self) -> OptimizedFunction:
        reason = "Nothing that was tried is faster and gives the same: " + "; ".join(self._refused)
        record = replace(self._base, reason=f"{reason}.", tried=self._tried)
        return OptimizedFunction(self._function, record)


@contextmanager
def _strict() -> Iterator[None]:
    """torch warns where it goes through rows one by one after all: a way that warns so is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*performance drop.*")
        yield


def _call_s(function: Function, samples: Sequence[Any]) -> float:
    """The median of calls over all samples: on a busy machine some take many times as long."""
    took_s: list[float] = []
    began = time.perf_counter()
    while True:
        start = time.perf_counter()
        for data in samples:
            function(data)
        settle()
        now = time.perf_counter()
        took_s.append((now - start) / len(samples))
        is_sound = len(took_s) >= _LEAST_CALLS and now - began >= _TIMED_S
        if is_sound or now - began >= _MOST_S:
            return statistics.median(took_s)
