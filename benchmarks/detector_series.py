"""Step times and memory over time whose changes are known, because they were put there."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

STEPS = 1000
WARM_UP = 30  # steps at the beginning of every other series, that are longer
BASES_S = (0.002, 0.05, 0.4, 3.0)
NOISES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06)
_NORMAL = 1.4826  # makes the median deviation of normal noise its standard deviation
_WINDOW = 15


@dataclass(frozen=True)
class StepSeries:
    """Durations of the steps of a run in which nothing changes.

    kind: the model of the noise, or where it was recorded. witness: durations of some other work
    that never changes, done beside each step: where that is slower too, the machine was.
    """

    kind: str
    values: list[float]
    is_recorded: bool = False
    witness: list[float] | None = None

    @property
    def noise(self) -> float:
        """Standard deviation of a step, as it tells over 15 of them: from their medians, so noise
        that lasts counts as what it is, and a single odd step as nothing."""
        logs = [math.log(value) for value in self.values[WARM_UP:]]
        runs = range(0, len(logs) - _WINDOW + 1, _WINDOW)
        levels = [median(logs[start : start + _WINDOW]) for start in runs]
        middle = median(levels)
        spread = _NORMAL * median(abs(level - middle) for level in levels)
        return spread * math.sqrt(_WINDOW) / 1.2533

    def slowed(self, at: int, by: float) -> StepSeries:
        """Every step from there on takes so much longer."""
        return replace(self, values=[v * (1 + by * (i >= at)) for i, v in enumerate(self.values)])


Noise = Callable[[random.Random, float], Iterator[float]]


def _lognormal(rng: random.Random, sigma: float) -> Iterator[float]:
    while True:
        yield rng.gauss(0.0, sigma)


def _heavy_tails(rng: random.Random, sigma: float) -> Iterator[float]:
    """Student's t with 3 degrees of freedom, and one step in 100 is up to five times as long."""
    while True:
        value = rng.gauss(0.0, sigma) / math.sqrt(rng.gammavariate(1.5, 2.0 / 3.0))
        yield value + (rng.uniform(0.2, 1.6) if rng.random() < 0.01 else 0.0)


def _autocorrelated(rng: random.Random, sigma: float, like: float = 0.5) -> Iterator[float]:
    value = 0.0
    while True:
        value = like * value + rng.gauss(0.0, sigma * math.sqrt(1 - like * like))
        yield value


def _lasting(rng: random.Random, sigma: float) -> Iterator[float]:
    """A slow step is followed by some ten slow ones, as where others use the machine."""
    return _autocorrelated(rng, sigma, like=0.9)


def _skewed(rng: random.Random, sigma: float) -> Iterator[float]:
    """A floor that no step goes below, and waits on top of it."""
    while True:
        yield rng.expovariate(1.0 / sigma)


def _periodic(rng: random.Random, sigma: float) -> Iterator[float]:
    """Every 10th, 25th or 50th step is longer (logging, an evaluation that nobody marked)."""
    every, longer = rng.choice((10, 25, 50)), rng.uniform(0.3, 1.2)
    step = rng.randrange(every)
    while True:
        step += 1
        yield rng.gauss(0.0, sigma) + longer * (step % every == 0)


def _alternating(rng: random.Random, sigma: float) -> Iterator[float]:
    """Long and short steps in turn (batches of two sizes)."""
    turn = 0
    while True:
        turn += 1
        yield rng.gauss(0.0, sigma) + 0.3 * (turn % 2)


def _bursts(rng: random.Random, sigma: float) -> Iterator[float]:
    """Two to six long steps in a row, once in some 150."""
    left = 0
    while True:
        if left == 0 and rng.random() < 1 / 150:
            left = rng.randint(2, 6)
        left = max(0, left - 1)
        yield rng.gauss(0.0, sigma) + rng.uniform(0.2, 0.8) * (left > 0)


def _louder(rng: random.Random, sigma: float) -> Iterator[float]:
    """The noise itself grows, from half to one and a half."""
    step = 0
    while True:
        step += 1
        yield rng.gauss(0.0, sigma * min(1.5, 0.5 + step / STEPS))


NOISE_MODELS: dict[str, Noise] = {
    "lognormal": _lognormal,
    "heavy tails": _heavy_tails,
    "autocorrelated": _autocorrelated,
    "lasting": _lasting,
    "skewed": _skewed,
    "periodic": _periodic,
    "alternating": _alternating,
    "bursts": _bursts,
    "louder": _louder,
}


def step_series(seed: int) -> list[StepSeries]:
    """Each noise model at each strength and base duration; other random numbers for each seed."""
    found = []
    for kind, model in NOISE_MODELS.items():
        for sigma in NOISES:
            for number, base_s in enumerate(BASES_S):
                rng = random.Random(f"{seed} {kind} {sigma} {base_s}")
                noise = model(rng, sigma)
                warm = number % 2 * rng.uniform(0.2, 2.0)
                values = [
                    base_s * math.exp(next(noise)) * (1.0 + warm * math.exp(-step / (WARM_UP / 4)))
                    for step in range(STEPS)
                ]
                found.append(StepSeries(kind, values))
    return found
