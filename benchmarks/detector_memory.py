"""Memory over time: leaks whose end is known, and what only looks like one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from detector_recordings import Row, gpu_memory_timeline, record

EACH = 12  # series of a kind
START = 0.3  # of the limit, that is held when training begins


@dataclass(frozen=True)
class MemorySeries:
    """Bytes, as a share of what fits unless recorded. ends_at: the place of the first value that no
    longer fits; None: it never comes. leaks_from: the place at which the leak begins."""

    kind: str
    times_s: list[float]
    values: list[float]
    limit: float
    ends_at: int | None
    leaks_from: int = 0
    is_recorded: bool = False

    @property
    def half_of_life(self) -> int:
        return self.leaks_from + ((self.ends_at or 0) - self.leaks_from) // 2


Shape = Callable[[random.Random, int], Iterator[float]]  # the second: samples in a life, or in all


def _even_leak(rng: random.Random, life: int) -> Iterator[float]:
    """With the ups and downs of batches on top."""
    noise = rng.uniform(0.002, 0.03)
    for step in count():
        yield START + (1 - START) * step / life + abs(rng.gauss(0, noise))


def _teeth_on_leak(rng: random.Random, life: int) -> Iterator[float]:
    """Garbage that is collected now and then, and some that never is."""
    tooth, height = rng.randint(7, max(8, life // 15)), rng.uniform(0.02, 0.15)
    for step in count():
        yield START + (1 - START) * step / life + height * (step % tooth) / tooth


def _leak_in_pieces(rng: random.Random, life: int) -> Iterator[float]:
    """An allocator takes memory in pieces."""
    piece = rng.uniform(0.005, 0.02)
    for step in count():
        yield START + piece * math.floor((1 - START) * step / life / piece)


def _uneven_leak(rng: random.Random, life: int) -> Iterator[float]:
    """Some steps leak more than others: as unevenly as leaves an end that can be told, chance in
    the second half of life alone moves it by 2 %."""
    leaked, shape = START, 5000 / life
    while True:
        leaked += (1 - START) / life * rng.gammavariate(shape, 1 / shape)
        yield leaked


def _leak_after_warm_up(rng: random.Random, life: int) -> Iterator[float]:
    filled, soon = rng.uniform(0.05, 0.2), life * rng.uniform(0.01, 0.05)
    for step in count():
        leaked = (1 - START - filled) * step / life
        yield START + filled * (1 - math.exp(-step / soon)) + leaked + rng.gauss(0, 0.004)


def _leak_under_epochs(rng: random.Random, life: int) -> Iterator[float]:
    """Batches are larger towards the end of each epoch."""
    epoch, height = life / rng.uniform(10, 30), rng.uniform(0.01, 0.06)
    for step in count():
        wave = height * (1 + math.sin(2 * math.pi * step / epoch))
        yield START + (1 - START) * step / life + wave + rng.gauss(0, 0.003)


def _steeper_leak(rng: random.Random, life: int) -> Iterator[float]:
    """It becomes a fifth faster over its life."""
    for step in count():
        share = step / life
        yield START + (1 - START) * (share + 0.1 * share * share) / 1.1 + rng.gauss(0, 0.005)


LEAKS: dict[str, Shape] = {
    "even leak": _even_leak,
    "leak under teeth": _teeth_on_leak,
    "leak in pieces": _leak_in_pieces,
    "uneven leak": _uneven_leak,
    "leak after warm-up": _leak_after_warm_up,
    "leak under epochs": _leak_under_epochs,
    "leak that gets steeper": _steeper_leak,
}


def _flat(rng: random.Random, length: int) -> Iterator[float]:
    level, noise = rng.uniform(0.3, 0.9), rng.uniform(0.001, 0.03)
    while True:
        yield level + rng.gauss(0, noise)


def _warm_up(rng: random.Random, length: int) -> Iterator[float]:
    """Fills ever more slowly."""
    filled, soon = rng.uniform(0.1, 0.5), length * rng.uniform(0.03, 0.25)
    for step in count():
        yield START + filled * (1 - math.exp(-step / soon)) + rng.gauss(0, 0.003)


def _cache(rng: random.Random, length: int) -> Iterator[float]:
    """Fills evenly up to a third of the way, and ends."""
    filled, full = rng.uniform(0.05, 0.24), length * rng.uniform(0.1, 0.6)
    for step in count():
        yield START + filled * min(1.0, step / full) + rng.gauss(0, 0.003)


def _teeth(rng: random.Random, length: int) -> Iterator[float]:
    """Garbage that is collected; the first tooth goes a third of the way at most."""
    tooth, height = rng.randint(8, length // 5), rng.uniform(0.05, 0.24)
    for step in count():
        yield START + height * (step % tooth) / tooth + rng.gauss(0, 0.003)


def _uneven_teeth(rng: random.Random, length: int) -> Iterator[float]:
    held = 0.0
    while True:
        held += rng.gammavariate(0.5, 2.0) * 0.01
        if held > 0.24 or rng.random() < 0.02:
            held = 0.0
        yield START + held


def _epochs(rng: random.Random, length: int) -> Iterator[float]:
    """Grows within each epoch, a little unlike the last one; evaluation on top between them."""
    epoch = rng.randint(max(20, length // 15), length // 5)
    height = 0.0
    for step in count():
        if step % epoch == 0:
            height = rng.uniform(0.15, 0.2)
        spike = 0.15 * (step % epoch > 0.95 * epoch)
        yield START + height * math.sqrt(step % epoch / epoch) + spike + rng.gauss(0, 0.003)


def _wandering(rng: random.Random, length: int) -> Iterator[float]:
    away = 0.0
    while True:
        away = 0.98 * away + rng.gauss(0, 0.006)
        yield 0.5 + away


def _pieces_that_end(rng: random.Random, length: int) -> Iterator[float]:
    """A few larger batches make the allocator take more, until it has seen the largest."""
    at = [length * rng.random() ** 2 for _ in range(rng.randint(2, 6))]
    for step in count():
        yield START + sum(0.04 * (step > one) for one in at) + rng.gauss(0, 0.002)


def _ever_slower(rng: random.Random, length: int) -> Iterator[float]:
    """As a dictionary of words does: twice as many steps, one more piece."""
    piece = rng.uniform(0.02, 0.06)
    for step in count():
        yield START + piece * math.log2(1 + step / 10) + rng.gauss(0, 0.002)


NO_LEAKS: dict[str, Shape] = {
    "flat": _flat,
    "warm-up": _warm_up,
    "cache that fills": _cache,
    "teeth": _teeth,
    "uneven teeth": _uneven_teeth,
    "epochs": _epochs,
    "wandering": _wandering,
    "pieces that end": _pieces_that_end,
    "ever slower": _ever_slower,
}


def leaks(seed: int, shapes: Mapping[str, Shape] = LEAKS) -> list[MemorySeries]:
    """Every third of them begins in the middle of a run."""
    found = []
    for kind, shape in shapes.items():
        for number in range(EACH):
            rng = random.Random(f"{seed} {kind} {number}")
            life = rng.choice((150, 400, 1000, 3000))
            before = life * (number % 3 == 0)
            values = [START + abs(rng.gauss(0, 0.003)) for _ in range(before)]
            for value in shape(rng, life):
                values.append(value)
                if value >= 1.0:
                    break
            found.append(_leak(kind, [float(at) for at in range(len(values))], values, before))
    return found


def _leak(kind: str, times_s: list[float], values: list[float], begin: int) -> MemorySeries:
    return MemorySeries(kind, times_s, values, 1.0, len(values) - 1, begin)


def no_leaks(seed: int, shapes: Mapping[str, Shape] = NO_LEAKS) -> list[MemorySeries]:
    found = []
    for kind, shape in shapes.items():
        for number in range(EACH):
            rng = random.Random(f"{seed} {kind} {number}")
            length = rng.choice((150, 400, 1000, 3000))
            values = [value for value, _ in zip(shape(rng, length), range(length), strict=False)]
            times_s = [float(at) for at in range(length)]
            found.append(MemorySeries(kind, times_s, values, 1.0, None))
    return found


def recorded_memory(steps: int) -> list[MemorySeries]:
    """Resident memory of real runs made here, and a GPU's memory within recorded steps."""
    found = [
        _recorded(f"here, {kind}", record(model, steps, kind), kind == "leak")
        for model in ("mlp", "cnn")
        for kind in ("leak", "cache", "sawtooth", "flat")
    ]
    held = gpu_memory_timeline()
    return [*found, *(_gpu_series(held, seed) for seed in range(2 * EACH) if held)]


def _recorded(kind: str, rows: list[Row], is_leak: bool) -> MemorySeries:
    # By the number of the step: how fast steps are on a busy machine is another question.
    times_s = [float(step) for step in range(len(rows))]
    values = [float(row.resident_bytes) for row in rows]
    # The limit is what a leak holds after nine tenths of it; nothing else may come near.
    limit = values[int(0.9 * len(values))] if is_leak else 1.3 * max(values)
    ends_at = next((at for at, value in enumerate(values) if value >= limit), None)
    return MemorySeries(kind, times_s, values, limit, ends_at, is_recorded=True)


def _gpu_series(held: list[float], seed: int) -> MemorySeries:
    """Recorded steps as a sampler sees them, which looks at any moment of them; every other one
    with a leak that is planted into it."""
    rng = random.Random(seed)
    top, length = max(held), rng.choice((150, 400, 1000))
    times_s = [float(at) for at in range(length)]
    values = [rng.choice(held) for _ in times_s]
    if seed % 2:
        return MemorySeries("GPU steps", times_s, values, 1.3 * top, None, is_recorded=True)
    values = [value + 2 * top * at / length for at, value in enumerate(values)]
    limit = rng.uniform(2.0, 2.5) * top
    ends_at = next(at for at, value in enumerate(values) if value >= limit)
    return MemorySeries("leak in GPU steps", times_s, values, limit, ends_at, is_recorded=True)
