"""A GPU that is busy and runs slower than it could: too hot, or short of power."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from stepscope.model.watching import Condition, Reading
from stepscope.monitor.gate import Gate
from stepscope.monitor.judge import graded, severity, with_length
from stepscope.monitor.level import Level
from stepscope.monitor.recent import Recent, Usual
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Throttling
from stepscope.monitor.words import percent

__all__ = ["ThrottlingRule"]

_WINDOW_S: Final = 30.0
_FEWEST: Final = 3  # readings
_BUSY: Final = 0.5  # an idle GPU lowers its clock by itself
_WARM_C: Final = 10.0  # so far below the limit, heat is no reason any more
_COOLER_C: Final = 3.0  # below the limit before it is over
_BACK: Final = 0.5  # of the loss, that has to be made good
_HOTTER: Final = ((0.0, 0.5), (10.0, 0.9))  # degrees beyond the limit


class _Gpu:
    def __init__(self, settings: Throttling) -> None:
        self._over = settings.over
        self.clock = Usual(_WINDOW_S)
        self.busy = Recent(_WINDOW_S)
        self.busy_now = 0.0
        self.celsius = Level(_WINDOW_S, Gate(settings.celsius, settings.celsius - _COOLER_C))
        self.slow = Gate(1.0 - settings.over, 1.0 - _BACK * settings.over)

    @property
    def is_busy(self) -> bool:
        """Now, and most of the time of late."""
        return min(self.busy_now, self.busy.mean or 0.0) >= _BUSY

    @property
    def clock_share(self) -> float | None:
        """Of the usual clock; None: not known yet."""
        usual, now = self.clock.value, self.clock.recent.mean
        return now / usual if usual and now is not None else None

    def update(self, reading: Reading) -> None:
        time_ns, value = reading.time_ns, reading.value
        if reading.metric == "gpu_busy_ratio":
            self.busy.update(time_ns, value)
            self.busy_now = value
        elif reading.metric == "gpu_clock_ratio" and self.is_busy:
            self.clock.update(time_ns, value, frozen=self.slow.is_open)
            share = self.clock_share
            if share is not None and self.clock.recent.count >= _FEWEST:
                self.slow.update(time_ns, share)
        elif reading.metric == "gpu_temperature_celsius":
            self.celsius.update(reading)


class ThrottlingRule(Rule):
    """Severity: from the share of the clock that is lost, or degrees beyond the limit, and how long
    that lasts. Confidence: from how far the clock is below, and the temperature above, its limit;
    more where both speak for it."""

    def __init__(self, settings: Throttling) -> None:
        self._settings = settings
        self._gpus: defaultdict[tuple[int, str], _Gpu] = defaultdict(lambda: _Gpu(settings))

    def reading(self, reading: Reading) -> None:
        if reading.metric.startswith("gpu_"):
            self._gpus[reading.rank, reading.label].update(reading)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for (rank, label), gpu in self._gpus.items():
            began = [one.began_ns for one in (gpu.slow, gpu.celsius) if one.began_ns is not None]
            if began and gpu.is_busy:
                yield self._condition(gpu, (rank, label), min(began), now_ns)

    def _condition(
        self, gpu: _Gpu, whose: tuple[int, str], began_ns: int, now_ns: int
    ) -> Condition:
        rank, label = whose
        celsius, share = gpu.celsius.mean, gpu.clock_share
        is_slow = gpu.slow.is_open and share is not None
        lost = 1.0 - share if is_slow and share is not None else 0.0
        # Half sure where a limit is just reached; surer the more is lost, up to 10 degrees above.
        by_clock = max(0.0, 1.0 - 0.5 * self._settings.over / lost) if lost > 0.0 else 0.0
        warmer = -_WARM_C if celsius is None else celsius - self._settings.celsius
        by_warmth = min(1.0, max(0.0, 0.5 + 0.5 * warmer / _WARM_C))
        hotter = (celsius or 0.0) - self._settings.celsius if gpu.celsius.is_beyond else -1.0
        lasted_s = (now_ns - began_ns) / 1e9
        by_heat = with_length(graded(hotter, _HOTTER), lasted_s) if hotter >= 0.0 else 0.0
        title = f"GPU {label} runs at {percent(1.0 - lost)} of its usual clock"
        if not is_slow:
            title = f"GPU {label} is hot: {celsius or 0.0:.0f} °C"
        return Condition(
            rule="throttling",
            key=f"rank {rank} GPU {label}",
            kind="throttling",
            title=title,
            severity=max(severity("throttling", lost, lasted_s) if is_slow else 0.0, by_heat),
            confidence=1.0 - (1.0 - by_clock) * (1.0 - by_warmth),
            began_ns=began_ns,
            share=lost,
            evidence=tuple(_evidence(gpu, celsius)),
            missing=() if celsius is not None else ("Its temperature is not known.",),
            measures={
                **({"clock_share": share} if share is not None else {}),
                **({"celsius": celsius} if celsius is not None else {}),
            },
            rank=rank,
            metric="gpu_clock_ratio" if is_slow else "gpu_temperature_celsius",
            value=gpu.clock.recent.mean if is_slow else celsius,
            limit=gpu.clock.value if is_slow else self._settings.celsius,
            group="throttling",
        )


def _evidence(gpu: _Gpu, celsius: float | None) -> Iterator[str]:
    yield f"It is busy {percent(gpu.busy.mean or 0.0)} of the time."
    if gpu.clock.value is not None and gpu.clock.recent.mean is not None:
        now, usual = percent(gpu.clock.recent.mean), percent(gpu.clock.value)
        yield f"Its clock is at {now} of the highest, and was at {usual}."
    if celsius is not None:
        yield f"It is at {celsius:.0f} °C."
