"""What GPUs say about themselves → samples: NVML from outside, torch's allocator at step ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["AbsentGpus", "AllocatorSource", "GpuSource", "NvmlSource", "find_gpus", "open_nvml"]

_INTERVAL_NS = 1_000_000_000


class GpuSource(Protocol):
    """Some GPUs, or none."""

    def sample(self, recorder: Recorder) -> None: ...
    def close(self) -> None: ...


class AbsentGpus:
    """No GPU, no driver, or no library to ask it: nothing is sampled."""

    def sample(self, recorder: Recorder) -> None:
        """There is nothing to say."""

    def close(self) -> None:
        """Nothing was opened."""


class NvmlSource:
    """The GPUs that NVIDIA's driver shows. What a card does not report is not sampled."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles = [
            nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())
        ]

    def sample(self, recorder: Recorder) -> None:
        for index, handle in enumerate(self._handles):
            for name, read in self._readings(handle):
                try:
                    value = read()
                except self._nvml.NVMLError:
                    continue
                if not math.isnan(value):
                    recorder.sample(recorder.intern(name), value, index)

    def glance(self, recorder: Recorder) -> None:
        """All of it is asked of the driver: there is no cheaper part."""
        self.sample(recorder)

    def _readings(self, handle: Any) -> list[tuple[str, Callable[[], float]]]:
        nvml = self._nvml
        return [
            (
                names.GPU_BUSY_SHARE,
                lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            ),
            (names.GPU_MEMORY_USED_BYTES, lambda: float(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
            (
                names.GPU_MEMORY_TOTAL_BYTES,
                lambda: float(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            ),
            (names.GPU_POWER_WATTS, lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            (
                names.GPU_TEMPERATURE_CELSIUS,
                lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            ),
            (
                names.GPU_CLOCK_SHARE,
                lambda: (
                    nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
                    / (nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) or math.nan)
                ),
            ),
        ]

    def close(self) -> None:
        self._nvml.nvmlShutdown()


def find_gpus() -> GpuSource:
    """The GPUs of this machine as their driver shows them."""
    nvml, _ = open_nvml()
    if nvml is None:
        return AbsentGpus()
    try:
        return NvmlSource(nvml)
    except nvml.NVMLError:
        return AbsentGpus()


def open_nvml() -> tuple[Any, str]:
    """NVIDIA's driver, to be closed by `nvmlShutdown`; or None, and why there is none."""
    if not _has_driver():  # without one, importing pynvml would be 14 ms for nothing
        return None, "there is no NVIDIA driver"
    try:
        import pynvml
    except ImportError:
        return None, "nvidia-ml-py is not installed (pip install 'stepscope[gpu]')"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, f"NVIDIA's driver does not answer: {error}"
    return pynvml, ""


def _has_driver() -> bool:
    from ctypes import CDLL

    try:
        CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


class AllocatorSource:
    """What torch holds of each GPU's memory: called at step ends, looks at most once a second."""

    def __init__(self, recorder: Recorder, cuda: Any) -> None:
        self._recorder = recorder
        self._cuda = cuda
        self._next_ns = 0
        self._allocated = recorder.intern(names.GPU_ALLOCATED_BYTES)
        self._reserved = recorder.intern(names.GPU_RESERVED_BYTES)

    def __call__(self) -> None:
        now_ns = self._recorder.now_ns()
        if now_ns < self._next_ns or not self._cuda.is_initialized():
            return
        self._next_ns = now_ns + _INTERVAL_NS
        for device in range(self._cuda.device_count()):
            reserved = self._cuda.memory_reserved(device)
            if reserved:  # a device that this process does not use has nothing to say
                self._recorder.sample(self._reserved, float(reserved), device)
                allocated = float(self._cuda.memory_allocated(device))
                self._recorder.sample(self._allocated, allocated, device)


class AllocatorPeaks:
    """The most that torch held of each GPU's memory since the last look; resets torch's own mark,
    so that `torch.cuda.max_memory_allocated` counts from there too."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def sample(self, recorder: Recorder) -> None:
        if not self._cuda.is_initialized():
            return
        name = recorder.intern(names.GPU_PEAK_ALLOCATED_BYTES)
        for device in range(self._cuda.device_count()):
            peak = self._cuda.max_memory_allocated(device)
            if peak:  # a device that this process does not use has nothing to say
                recorder.sample(name, float(peak), device)
                self._cuda.reset_peak_memory_stats(device)

    def close(self) -> None:
        """Nothing was opened."""


def usable_cuda() -> Any:
    """torch.cuda where torch is imported and sees a GPU; None otherwise."""
    import sys

    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return None
    return torch.cuda if torch.cuda.is_available() else None


def gpu_memory_share() -> float | None:
    """How much of the current GPU's memory is taken, by whomever; None: there is no GPU in use."""
    cuda = usable_cuda()
    if cuda is None:
        return None
    free_bytes, total_bytes = cuda.mem_get_info()
    return 1.0 - free_bytes / total_bytes if total_bytes else None
