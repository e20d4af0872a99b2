"""The most FLOPs that this machine does in a second: measured once with matrix products."""

from __future__ import annotations

import json
import math
import os
import platform
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.collect import peak_cache
from stepscope.collect.cpus import usable_cpus
from stepscope.collect.proc import read_once
from stepscope.errors import MissingExtraError, UsageError

__all__ = ["PeakFlops", "measure_peak_flops"]

# Small ones for slow processors, large ones to keep a GPU busy; the fastest counts.
_SIZES = {"cpu": (256, 512, 1024, 1536), "other": (512, 1024, 2048, 4096, 8192)}
_BUDGET_S = 0.6
_ALONE = 0.8  # of the CPU time that was there to be had; the rest goes by between products


@dataclass(frozen=True)
class PeakFlops:
    """What matrix products reach here: 1e11 and an operation with 5e10 FLOP/s ran at half of it.

    It is the peak of torch on this device with so many threads, as measured, not the figure of a
    data sheet. Other load on the machine lowers it: what was measured on CPUs that others used as
    well is not kept for later processes.
    """

    flops_per_s: float
    device: str
    dtype: str
    threads: int  # of torch, for a CPU
    measured_unix: float
    cached: bool  # measured by an earlier process


def measure_peak_flops(
    dtype: str = "float32",
    device: str = "cpu",
    *,
    refresh: bool = False,
    cache: Path | None = None,
) -> PeakFlops:
    """The peak of a device, from the user's cache or measured now (less than a second on a CPU).

    `refresh`: measure even if it is known. `cache`: the file to use instead of the user's. Raises
    MissingExtraError without torch, UsageError for a dtype or device that cannot be measured.
    Measuring allocates memory on the device, so it shows in the peak of a GPU's memory.
    """
    torch = _torch()
    wanted = _dtype(torch, dtype)
    key, threads = _key(torch, dtype, device), int(torch.get_num_threads())
    path = peak_cache.cache_file() if cache is None else cache
    known = None if refresh else peak_cache.read(path, key)
    if known is not None:
        return PeakFlops(known.flops_per_s, device, dtype, threads, known.unix_s, cached=True)
    flops_per_s, was_alone = _in_own_thread(torch, wanted, device, threads)
    found = peak_cache.Measured(flops_per_s, time.time())
    if was_alone:
        peak_cache.write(path, key, found)
    return PeakFlops(found.flops_per_s, device, dtype, threads, found.unix_s, cached=False)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch") from None
    return torch


def _dtype(torch: Any, name: str) -> Any:
    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    raise UsageError(f"{name!r} is no floating-point dtype of torch. Take float32 or bfloat16.")


def _key(torch: Any, dtype: str, device: str) -> str:
    """All that a peak depends on."""
    try:
        where = torch.device(device)
        name = torch.cuda.get_device_name(where) if where.type == "cuda" else where.type
        return json.dumps({
            "host": platform.node(),
            "cpu": _cpu_model(),
            "cpus": usable_cpus(os.getpid()),
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "device": name,
            "dtype": dtype,
            "float32_products": torch.get_float32_matmul_precision(),  # TF32 or not, on a GPU
        })  # fmt: skip
    except (RuntimeError, AssertionError) as error:  # torch's words for "there is no such device"
        raise UsageError(f"the device {device!r} cannot be used: {_first_line(error)}") from None


def _cpu_model() -> str:
    for line in (read_once("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _in_own_thread(torch: Any, dtype: Any, device: str, threads: int) -> tuple[float, bool]:
    """Measure where no mode, autocast or grad setting of the program applies: in a new thread.

    Returns the peak, and whether the CPUs were ours alone meanwhile.
    """
    found: list[float] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)  # new threads may begin with the default
            with torch.no_grad():
                found.append(_best(torch, dtype, device))
        except Exception as error:  # noqa: BLE001 - handed over to the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="stepscope-peak-flops", daemon=True)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    thread.start()
    thread.join()
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    if errors:
        what = f"{str(dtype).removeprefix('torch.')} on {device!r}"
        raise UsageError(f"{what} cannot be measured: {_first_line(errors[0])}") from errors[0]
    wanted_cpus = min(float(threads), usable_cpus(os.getpid()) or math.inf)
    is_on_cpus = torch.device(device).type == "cpu"
    return found[0], not is_on_cpus or cpu_s > _ALONE * wanted_cpus * wall_s


def _best(torch: Any, dtype: Any, device: str) -> float:
    """The highest rate over all sizes and rounds, in FLOP/s."""
    where = torch.device(device)
    finish = torch.cuda.synchronize if where.type == "cuda" else _nothing
    end = time.perf_counter() + _BUDGET_S
    products: list[_Product] = []
    for size in _SIZES.get(where.type, _SIZES["other"]):
        left_s = end - time.perf_counter()
        if products and products[-1].expected_s(size) > left_s:
            break
        try:
            products.append(_Product(torch, dtype, where, size, finish))
        except RuntimeError:  # out of memory, as a rule: then the smaller sizes tell
            if not products:
                raise
            break
    # The first products of a process may be a hundred times slower than those after some tenths of
    # a second, on the same threads: so all sizes take turns until the time is up.
    while sum(one.repeat(end) for one in products):
        pass
    return max(one.flops / one.fastest_s for one in products)


class _Product:
    """A matrix product of one size, and the shortest time it took."""

    def __init__(self, torch: Any, dtype: Any, device: Any, size: int, finish: Any) -> None:
        # Values of our own generator: the program's random numbers stay as they are. Not zeros:
        # GPUs clock higher on those.
        ours = torch.Generator().manual_seed(0)
        values = torch.rand(size, size, generator=ours, dtype=torch.float32, device="cpu")
        self._x = values.to(device, dtype)
        self._out = torch.mm(self._x, self._x)  # sets up threads and workspaces
        finish()
        self._mm, self._finish = torch.mm, finish
        self.size, self.flops = size, 2 * size**3
        self.fastest_s = math.inf
        self._once()

    def expected_s(self, size: int) -> float:
        """How long the first two products of another size may take, from this one's time."""
        return 2 * self.fastest_s * (size / self.size) ** 3

    def repeat(self, end: float) -> bool:
        """Once more, if there is time for it."""
        fits = time.perf_counter() + self.fastest_s < end
        if fits:
            self._once()
        return fits

    def _once(self) -> None:
        began = time.perf_counter()
        self._mm(self._x, self._x, out=self._out)
        self._finish()
        self.fastest_s = min(self.fastest_s, time.perf_counter() - began)


def _nothing() -> None:
    """A CPU has finished when the call returns."""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
