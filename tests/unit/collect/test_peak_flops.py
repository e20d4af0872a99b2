"""The measured peak, and a cache that is never a trouble."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from stepscope.collect import peak_cache, peak_flops
from stepscope.collect.flops import FlopCounter
from stepscope.collect.peak_cache import Measured
from stepscope.collect.peak_flops import PeakFlops, measure_peak_flops
from stepscope.errors import UsageError


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "stepscope" / "peak-flops.json"


@pytest.fixture
def kept_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep peaks however busy the machine is that runs the tests."""
    monkeypatch.setattr(peak_flops, "_ALONE", 0.0)


def kept(cache: Path) -> PeakFlops:
    """A peak that was kept, which takes a moment in which nobody else uses the CPUs."""
    for _ in range(4):
        peak = measure_peak_flops(cache=cache)
        if cache.exists():
            return peak
    pytest.skip("this machine is too busy to measure a peak")


@pytest.mark.usefixtures("kept_anyway")
def test_a_peak_is_measured_once(cache: Path) -> None:
    first = measure_peak_flops(cache=cache)
    assert (first.device, first.dtype, first.cached) == ("cpu", "float32", False)
    assert first.threads == torch.get_num_threads()
    assert measure_peak_flops(cache=cache) == PeakFlops(
        first.flops_per_s, "cpu", "float32", first.threads, first.measured_unix, cached=True
    )
    assert not measure_peak_flops(cache=cache, refresh=True).cached


def test_the_peak_is_one_that_a_product_comes_near_and_does_not_pass(cache: Path) -> None:
    peak = kept(cache).flops_per_s
    x = torch.rand(512, 512)
    rates = []
    for _ in range(50):
        began = time.perf_counter()
        x @ x
        rates.append(2 * 512**3 / (time.perf_counter() - began))

    assert 0.2 * peak < max(rates) < 1.5 * peak  # wide: others use this machine too


@pytest.mark.usefixtures("kept_anyway")
def test_what_the_peak_depends_on_is_measured_apart(cache: Path) -> None:
    threads = torch.get_num_threads()
    measure_peak_flops(cache=cache)
    try:
        torch.set_num_threads(threads + 1)
        assert not measure_peak_flops(cache=cache).cached
    finally:
        torch.set_num_threads(threads)
    assert not measure_peak_flops("bfloat16", cache=cache).cached
    assert measure_peak_flops(cache=cache).cached


@pytest.mark.skipif((os.cpu_count() or 99) > 8, reason="too many CPUs to keep busy")
def test_what_was_measured_on_a_busy_machine_is_not_kept(cache: Path) -> None:
    burn = "while True: pass"
    others = [
        subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        time.sleep(0.3)
        assert measure_peak_flops(cache=cache).flops_per_s > 0
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert not cache.exists()


def test_the_state_of_torch_stays_as_it_was(cache: Path) -> None:
    torch.manual_seed(7)
    before = (torch.get_num_threads(), torch.get_rng_state(), torch.get_default_dtype())
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
        measure_peak_flops(cache=cache)
        assert torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    after = (torch.get_num_threads(), torch.get_rng_state(), torch.get_default_dtype())

    assert torch.equal(before[1], after[1])
    assert (before[0], before[2]) == (after[0], after[2])
    assert not [one for one in threading.enumerate() if "peak-flops" in one.name]


def test_measuring_within_a_block_does_not_count_for_it(cache: Path) -> None:
    counter = FlopCounter()
    token = counter.enter("block")
    measure_peak_flops(cache=cache)
    assert counter.leave(token) == 0


@pytest.mark.parametrize(
    ("dtype", "device", "says"),
    [
        ("int32", "cpu", "no floating-point dtype"),
        ("nonsense", "cpu", "no floating-point dtype"),
        ("float32", "nonsense", "cannot be used"),
        ("float32", "cuda:99", "cannot be used"),
    ],
)
def test_what_cannot_be_measured_is_said(
    dtype: str, device: str, says: str, cache: Path
) -> None:  # fmt: skip
    with pytest.raises(UsageError, match=says):
        measure_peak_flops(dtype, device, cache=cache)
    assert not cache.exists()


def entry(flops_per_s: object, unix_s: object = 1.0) -> str:
    return json.dumps({"schema": 1, "entries": {"key": [flops_per_s, unix_s]}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"schema": 1, "entries": []}',
        '{"schema": 2, "entries": {"key": [1e11, 1.0]}}',
        '{"schema": 1, "entries": {"key": {"flops_per_s": 1e11}}}',
        '{"schema": 1, "entries": {"key": [NaN, 1.0]}}',
        '{"schema": 1, "entries": {"key": [1e999, 1.0]}}',
        entry(-1e11),
        entry(0),
        entry(True),
        entry("1e11"),
        entry(10**400),
        entry(1e11, None),
        entry(1e11, -5),
        "\x00\xff",
        " " * (2 << 20) + entry(1e11),
    ],
)
def test_a_cache_that_cannot_be_relied_on_is_as_good_as_none(cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text, encoding="latin-1")
    assert peak_cache.read(cache, "key") is None
    peak_cache.write(cache, "key", Measured(2e11, 5.0))
    assert peak_cache.read(cache, "key") == Measured(2e11, 5.0)


def test_a_sound_entry_is_taken(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text(entry(1e11))
    assert peak_cache.read(cache, "key") == Measured(1e11, 1.0)


def test_a_pipe_in_place_of_the_cache_keeps_nobody_waiting(cache: Path) -> None:
    cache.parent.mkdir()
    os.mkfifo(cache)
    assert peak_cache.read(cache, "key") is None
    writer = os.open(cache, os.O_RDWR)  # somebody who never says anything
    try:
        assert peak_cache.read(cache, "key") is None
    finally:
        os.close(writer)


@pytest.mark.parametrize("blocked", ["folder", "file"])
def test_a_cache_that_cannot_be_written_is_no_error(cache: Path, blocked: str) -> None:
    if blocked == "folder":
        cache.parent.write_text("in the way")
    else:
        cache.mkdir(parents=True)
    peak_cache.write(cache, "key", Measured(1e11, 1.0))
    assert peak_cache.read(cache, "key") is None
    assert measure_peak_flops(cache=cache).flops_per_s > 0
    left = list(cache.parent.iterdir()) if cache.parent.is_dir() else []
    assert left in ([], [cache]), "no half-written file stays behind"


def test_the_cache_stays_small_and_keeps_the_newest(cache: Path) -> None:
    for number in range(150):
        peak_cache.write(cache, f"host {number}", Measured(1e11, float(number)))
    assert len(json.loads(cache.read_text())["entries"]) == 100
    assert peak_cache.read(cache, "host 149") == Measured(1e11, 149.0)
    assert peak_cache.read(cache, "host 3") is None


def test_the_cache_lies_in_the_users_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert peak_cache.cache_file() == Path("/caches/stepscope/peak-flops.json")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert peak_cache.cache_file() == tmp_path / ".cache" / "stepscope" / "peak-flops.json"
