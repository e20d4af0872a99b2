"""Memory that cannot always be judged rightly from what was seen so far: shown, not promised.

Leaks whose end chance moves by more than 15 %, or whose waves are nearly as long as what was seen
of them; and caches and first teeth that rise evenly most of the way to the limit, which are the
same as a leak until they end.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import count

from detector_memory import START, Shape


def _long_teeth_on_leak(rng: random.Random, life: int) -> Iterator[float]:
    tooth, height = rng.randint(max(7, life // 20), max(8, life // 12)), rng.uniform(0.02, 0.15)
    for step in count():
        yield START + (1 - START) * step / life + height * (step % tooth) / tooth


def _leak_under_long_epochs(rng: random.Random, life: int) -> Iterator[float]:
    epoch, height = life / rng.uniform(6, 10), rng.uniform(0.01, 0.06)
    for step in count():
        wave = height * (1 + math.sin(2 * math.pi * step / epoch))
        yield START + (1 - START) * step / life + wave + rng.gauss(0, 0.003)


def _very_uneven_leak(rng: random.Random, life: int) -> Iterator[float]:
    """Some steps leak much, most of them next to nothing."""
    leaked = START
    while True:
        leaked += (1 - START) / life * rng.gammavariate(0.5, 2.0)
        yield leaked


def _large_cache(rng: random.Random, length: int) -> Iterator[float]:
    filled, full = rng.uniform(0.3, 0.6), length * rng.uniform(0.1, 0.6)
    for step in count():
        yield START + filled * min(1.0, step / full) + rng.gauss(0, 0.003)


def _high_teeth(rng: random.Random, length: int) -> Iterator[float]:
    tooth, height = rng.randint(8, length // 5), rng.uniform(0.3, 0.6)
    for step in count():
        yield START + height * (step % tooth) / tooth + rng.gauss(0, 0.003)


HARD_LEAKS: dict[str, Shape] = {
    "leak under long teeth": _long_teeth_on_leak,
    "leak under long epochs": _leak_under_long_epochs,
    "very uneven leak": _very_uneven_leak,
}
HARD_NO_LEAKS: dict[str, Shape] = {"large cache": _large_cache, "high teeth": _high_teeth}
