"""Leaks, and what looks like them. Sizes in MiB, a sample every 0.1 s."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyze.growth import Growth, judge_growth

MIB = 1 << 20


def judged(sizes: Sequence[float]) -> Growth:
    return judge_growth([(at * 0.1, size * MIB) for at, size in enumerate(sizes)])


def made(level: Callable[[int], float], noise: float = 0.0, count: int = 100) -> list[float]:
    random.seed(4)
    return [1000.0 + level(at) + random.gauss(0, noise) for at in range(count)]


def test_steady_growth_leaks_with_its_rate() -> None:
    found = judged(made(lambda at: 2.0 * at))
    assert found.leaks is True
    assert found.slope == pytest.approx(20 * MIB)
    assert found.grown_bytes == pytest.approx(2.0 * 74 * MIB)  # 75 samples after warm-up
    assert (found.windows, found.growing_windows) == (8, 8)


def test_a_leak_below_garbage_is_found() -> None:
    assert judged(made(lambda at: at + 20 * (at % 5))).leaks is True


def test_a_leak_that_pauses_once_is_found() -> None:
    assert judged(made(lambda at: at if at < 60 else max(60, at - 10))).leaks is True


def test_a_cache_that_fills_and_stays_is_no_leak() -> None:
    found = judged(made(lambda at: 5.0 * min(at, 60), noise=0.2))
    assert found.leaks is False
    assert "until it was full" in found.why


def test_a_cache_that_fills_ever_more_slowly_is_no_leak() -> None:
    found = judged(made(lambda at: 500 * (1 - 0.97**at)))
    assert found.leaks is False


def test_garbage_that_is_collected_is_no_leak() -> None:
    assert judged(made(lambda at: 3.0 * (at % 20))).leaks is False


def test_memory_that_is_given_back_once_is_no_leak() -> None:
    found = judged(made(lambda at: 2.0 * at - (60.0 if at > 70 else 0.0)))
    assert found.leaks is False
    assert "given back" in found.why


def test_a_step_is_no_leak() -> None:
    found = judged(made(lambda at: 300.0 * (at > 50), noise=0.1))
    assert found.leaks is False


def test_noise_is_no_leak() -> None:
    assert judged(made(lambda at: 0.0, noise=50.0)).leaks is False


def test_memory_that_shrinks_is_no_leak() -> None:
    found = judged(made(lambda at: -2.0 * at))
    assert found.leaks is False
    assert found.slope == pytest.approx(-20 * MIB)


def test_a_few_pieces_of_an_allocator_are_no_leak() -> None:
    found = judged(made(lambda at: 0.04 * at))  # 3 MiB after warm-up
    assert found.leaks is False
    assert "allocators" in found.why


def test_few_samples_tell_nothing() -> None:
    for count in range(16):
        found = judged(made(lambda at: 5.0 * at, count=count))
        assert (found.leaks, found.slope, found.grown_bytes) == (None, None, None)
        assert f"{count} of 16" in found.why
    assert judged(made(lambda at: 5.0 * at, count=16)).leaks is True


def test_samples_at_one_moment_tell_nothing() -> None:
    assert judge_growth([(7, 1e9 * at) for at in range(100)]).leaks is None


def test_what_is_no_number_and_the_order_do_not_matter() -> None:
    points = [(at * 1000, 1e7 * at) for at in range(50)]
    mixed = [*reversed(points), (51_000, float("nan"))]
    assert judge_growth(mixed) == judge_growth(points)


counts = st.integers(32, 400)


@settings(deadline=None)
@given(counts, st.floats(0.2, 50), st.floats(0, 0.1), st.integers(0, 10**6))
def test_any_steady_leak_is_found(count: int, per_sample: float, part: float, seed: int) -> None:
    """Noise: up to a tenth of the growth of a window, either way."""
    noise, rng = part * per_sample * count * 3 / 32, random.Random(seed)
    sizes = [500 + per_sample * at + rng.uniform(-noise, noise) for at in range(count)]
    if per_sample * count * 0.7 > 8:  # well over the floor
        assert judged(sizes).leaks is True


@settings(deadline=None)
@given(counts, st.floats(1, 10_000), st.floats(0.05, 0.75), st.floats(0, 2), st.integers(0, 10**6))
def test_no_cache_that_is_full_before_the_end_leaks(
    count: int, size: float, full_at: float, noise: float, seed: int
) -> None:
    rng = random.Random(seed)
    sizes = [size * min(1.0, at / (count * full_at)) + rng.uniform(0, noise) for at in range(count)]
    assert judged(sizes).leaks is False


@settings(deadline=None)
@given(counts, st.floats(1, 10_000), st.floats(0.01, 0.33), st.floats(0, 1))
def test_no_sawtooth_leaks(count: int, height: float, period: float, phase: float) -> None:
    samples = max(2.0, period * count)
    sizes = [height * ((at / samples + phase) % 1.0) for at in range(count)]
    assert judged(sizes).leaks is False


@settings(deadline=None)
@given(counts, st.floats(1, 10_000), st.floats(0, 1), st.floats(0, 3), st.integers(0, 10**6))
def test_no_single_step_leaks(
    count: int, height: float, where: float, noise: float, seed: int
) -> None:
    rng = random.Random(seed)
    sizes = [height * (at >= where * count) + rng.uniform(0, noise) for at in range(count)]
    assert judged(sizes).leaks is False


@settings(deadline=None)
@given(counts, st.floats(0, 1000), st.integers(0, 10**6))
def test_no_noise_leaks(count: int, noise: float, seed: int) -> None:
    rng = random.Random(seed)
    assert judged([rng.gauss(2000, noise) for _ in range(count)]).leaks is False


PROGRAM = """
import os, sys, time

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

kept = {}
limit = int(sys.argv[1])
for number in range(120):
    kept[number % limit] = bytearray(os.urandom(1024) * 1024)
    garbage = [bytearray(4 << 20) for _ in range(number % 3)]
    del garbage
    print(time.monotonic_ns(), rss())
    time.sleep(0.001)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("limit", "leaks"), [(10**9, True), (20, False), (60, False)])
def test_real_programs(limit: int, leaks: bool) -> None:
    """One MiB an iteration: kept for good, or in a cache of 20 or 60 entries."""
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(limit)], capture_output=True, text=True, check=True
    ).stdout
    points = [
        (int(time_ns) / 1e9, float(size)) for time_ns, size in map(str.split, told.splitlines())
    ]
    found = judge_growth(points)
    assert found.leaks is leaks, found
    if leaks:
        seconds = points[-1][0] - points[30][0]
        assert found.slope is not None
        assert found.slope * seconds == pytest.approx(90 * MIB, rel=0.3)
