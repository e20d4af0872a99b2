"""What stepscope finds on this machine, and what that means for a recording."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stepscope import __version__
from stepscope.config import RUNS_FOLDER
from stepscope.printer import show

__all__ = ["Check", "examine", "show_doctor"]


class Check(NamedTuple):
    """One line. `well`: nothing is missing here."""

    topic: str
    found: str
    well: bool = True


def show_doctor() -> None:
    checks = list(examine())
    width = max(len(check.topic) for check in checks)
    for check in checks:
        show(f"{'✓' if check.well else '✗'} {check.topic.ljust(width)}  {check.found}")


def examine() -> Iterator[Check]:
    yield Check(
        "stepscope", f"{__version__}, Python {platform.python_version()} ({sys.executable})"
    )
    for topic, look in _CHECKS.items():
        try:
            found, well = look()
        except Exception as error:  # noqa: BLE001 - a check that fails is itself a finding
            found, well = f"{type(error).__name__}: {error}", False
        yield Check(topic, found, well)


def _core() -> tuple[str, bool]:
    from stepscope.record.core import core, core_reason

    native = core.name == "native"
    hint = "" if native else ". It works, at a higher cost for each event"
    return f"{core.name}: {core_reason}{hint}", native


def _packages() -> tuple[str, bool]:
    wanted = ("pyarrow", "duckdb", "psutil", "rich")
    versions = {name: _version(name) for name in wanted}
    missing = [name for name, version in versions.items() if not version]
    text = ", ".join(f"{name} {version or 'MISSING'}" for name, version in versions.items())
    return text + (
        f". Install with: pip install {' '.join(missing)}" if missing else ""
    ), not missing


def _torch() -> tuple[str, bool]:
    # Not imported: that takes seconds, and the program may use another Python anyway.
    version = _version("torch")
    if version:
        return f"{version} in this Python", True
    return "not in this Python: programs of another Python are profiled all the same", True


def _gpu() -> tuple[str, bool]:
    drivers = Path("/proc/driver/nvidia/version")
    if not drivers.exists():
        return "no NVIDIA driver: no GPU samples", True
    if importlib.util.find_spec("pynvml") is None:
        return "an NVIDIA driver, but no NVML. Install it with: pip install 'stepscope[gpu]'", False
    import pynvml

    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    return ", ".join(str(pynvml.nvmlDeviceGetName(handle)) for handle in handles) or "none", True


def _proc() -> tuple[str, bool]:
    sources = {
        "processes": "/proc/self/stat",
        "disk bytes": "/proc/self/io",
        "scheduler delay": "/proc/self/schedstat",
        "pressure": "/proc/pressure/cpu",
        "network": "/proc/net/dev",
    }
    missing = [name for name, path in sources.items() if not _readable(path)]
    if missing:
        return f"not available here: {', '.join(missing)}", False
    return f"{', '.join(sources)}", True


def _place() -> tuple[str, bool]:
    folder = Path(RUNS_FOLDER)
    here = folder if folder.is_dir() else Path()
    if os.access(here, os.W_OK):
        return f"runs go to {folder.resolve()}", True
    return f"{here.resolve()} cannot be written: runs go to a temporary folder, or use -o", False


def _readable(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


_CHECKS: dict[str, Callable[[], tuple[str, bool]]] = {
    "core": _core,
    "packages": _packages,
    "torch": _torch,
    "GPU": _gpu,
    "/proc": _proc,
    "run folder": _place,
}
