"""Adds what torch's CUDA allocator told to the memory of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.model.details import Details
    from stepscope.model.memory import Memory

__all__ = ["with_device_memory"]

_FILES: Final = "rank-*/*.cuda-memory.json"  # collect/cuda_memory.py


def with_device_memory(details: Details, run: Path) -> Details:
    """The same details where there is no such file. Of several ranks the first is told."""
    memory, files = details.memory, sorted(run.glob(_FILES))
    if memory is None or not files:
        return details
    from stepscope.analyze.memory_files import memory_of_snapshot
    from stepscope.interop.load import load_memory_file
    from stepscope.model.allocations import AllocatorSnapshot

    try:
        loaded = load_memory_file(files[0])
    except StepscopeError as error:
        return replace(details, memory=replace(memory, notes=(*memory.notes, str(error))))
    if not isinstance(loaded, AllocatorSnapshot):
        return details
    return replace(details, memory=_joined(memory, memory_of_snapshot(loaded)))


def _joined(host: Memory, devices: Memory) -> Memory:
    return replace(
        host,
        devices=(*host.devices, *devices.devices),
        fragmentation=(*host.fragmentation, *devices.fragmentation),
        refused=(*host.refused, *devices.refused),
        notes=(*host.notes, *devices.notes),
    )
