"""Counters of energy → samples: RAPL for CPU packages and memory, NVML for GPUs.

They count what whole packages and whole cards used, for whichever process. What is not counted here
is absent, and `reasons` says why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from stepscope.collect.gpu import open_nvml
from stepscope.collect.proc import KeptFile, read_once
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["EnergyCounter", "EnergySource", "GpuCounter", "RaplCounter", "find_energy"]

POWERCAP = "/sys/class/powercap"
# "intel-rapl:0" is a package and "intel-rapl:0:1" a part of it, on AMD too. "intel-rapl-mmio:0" is
# the same package seen another way: counting it would count twice.
_ZONE = re.compile(r"intel-rapl:(\d+)(:\d+)?")


class EnergyCounter(Protocol):
    """Something that counts joules."""

    name: str  # of the samples
    index: int

    def joules(self) -> float | None:
        """All that was counted so far; None: it does not answer any more."""

    def close(self) -> None: ...


class RaplCounter:
    """One zone of the kernel's powercap folder. It begins again at 0 now and then."""

    def __init__(self, name: str, index: int, folder: str) -> None:
        self.name, self.index = name, index
        self._file = KeptFile(f"{folder}/energy_uj")
        limit = read_once(f"{folder}/max_energy_range_uj") or ""
        self._limit_uj = int(limit) if limit.strip().isdigit() else None
        self._last_uj: int | None = None
        self._before_uj = 0  # counted in the rounds that are over

    def joules(self) -> float | None:
        text = self._file.read(64)
        if text is None or not text.strip().isdigit():
            return None
        now_uj = int(text)
        if self._last_uj is not None and now_uj < self._last_uj:
            if self._limit_uj is None:  # how far it went before it began again is not known
                self.close()
                return None
            self._before_uj += self._limit_uj
        self._last_uj = now_uj
        return (self._before_uj + now_uj) / 1e6

    def close(self) -> None:
        self._file.close()


class GpuCounter:
    """One GPU, since its driver was loaded."""

    name = names.ENERGY_GPU_JOULES

    def __init__(self, nvml: Any, index: int) -> None:
        self.index = index
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def joules(self) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000)
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        """The driver is closed by the source."""


class EnergySource:
    """All counters of this machine; `reasons`: what is not counted and why, a sentence each."""

    def __init__(
        self, counters: Sequence[EnergyCounter], reasons: Iterable[str] = (), nvml: Any = None
    ) -> None:
        self._counters = list(counters)
        self._reasons = list(reasons)
        self._nvml = nvml

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._reasons)

    def sample(self, recorder: Recorder) -> None:
        for counter in tuple(self._counters):
            joules = counter.joules()
            if joules is None:
                self._counters.remove(counter)
                self._reasons.append(f"{counter.name} of {counter.index} stopped answering")
                counter.close()
            else:
                recorder.sample(recorder.intern(counter.name), joules, counter.index)

    def close(self) -> None:
        for counter in self._counters:
            counter.close()
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None


def find_energy(powercap: str = POWERCAP) -> EnergySource:
    """The counters of energy that this process may read."""
    packages, why_not = _rapl(powercap)
    gpus, nvml, why_no_gpu = _gpus()
    return EnergySource([*packages, *gpus], [*why_not, *why_no_gpu], nvml)


def _rapl(powercap: str) -> tuple[list[EnergyCounter], list[str]]:
    found: list[EnergyCounter] = []
    reasons: list[str] = []
    for zone in _zones(powercap):
        folder = f"{powercap}/{zone}"
        name = _measures(read_once(f"{folder}/name") or "")
        if name is None:  # cores and graphics, which the package includes; the whole platform
            continue
        why_not = _unreadable(f"{folder}/energy_uj")
        if why_not:
            reasons.append(f"{name} of {zone} cannot be read: {why_not}")
            continue
        match = _ZONE.fullmatch(zone)
        found.append(RaplCounter(name, int(match[1]) if match else 0, folder))
    names_found = {counter.name for counter in found}
    for name, what in ((names.ENERGY_CPU_JOULES, "CPUs"), (names.ENERGY_DRAM_JOULES, "memory")):
        if name not in names_found and not any(reason.startswith(name) for reason in reasons):
            reasons.append(f"{name}: {powercap} shows no RAPL counter for {what}")
    return found, reasons


def _zones(powercap: str) -> list[str]:
    try:
        found = os.listdir(powercap)  # noqa: PTH208
    except OSError:
        return []
    return sorted(zone for zone in found if _ZONE.fullmatch(zone))


def _measures(zone_name: str) -> str | None:
    if zone_name.startswith("package"):
        return names.ENERGY_CPU_JOULES
    return names.ENERGY_DRAM_JOULES if zone_name.strip() == "dram" else None


def _unreadable(path: str) -> str:
    """Why a file cannot be read; "": it can."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.read(64)
    except PermissionError:
        return f"only root may, unless an administrator runs: chmod a+r {path}"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _gpus() -> tuple[list[EnergyCounter], Any, list[str]]:
    name = names.ENERGY_GPU_JOULES
    nvml, why_not = open_nvml()
    if nvml is None:
        return [], None, [f"{name}: {why_not}"]
    found: list[EnergyCounter] = []
    reasons = []
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            counter = GpuCounter(nvml, index)
            if counter.joules() is None:
                reasons.append(f"{name} of {index}: this card does not count its energy")
            else:
                found.append(counter)
    except nvml.NVMLError as error:
        reasons.append(f"{name}: {error}")
    return found, nvml, reasons
