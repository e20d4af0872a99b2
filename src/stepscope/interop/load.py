"""A memory file of another tool, whichever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepscope.errors import FormatError
from stepscope.interop.cuda_snapshot import is_snapshot, snapshot_of
from stepscope.interop.files import read_foreign
from stepscope.interop.memory_timeline import is_timeline, timeline_of
from stepscope.interop.plain_json import load_plain_json
from stepscope.interop.plain_pickle import load_plain_pickle
from stepscope.model.allocations import AllocatorSnapshot, CategoryTimeline

__all__ = ["load_memory_file"]


def load_memory_file(path: Path) -> AllocatorSnapshot | CategoryTimeline:
    """FormatError, UsageError: it cannot be read or is something else; nothing in it was run."""
    document = _document(read_foreign(path), path.name)
    try:
        if is_snapshot(document):
            return snapshot_of(document)
        if is_timeline(document):
            return timeline_of(document)
    except FormatError as error:
        raise FormatError(f"{path} cannot be used: {error} Export it again with torch.") from error
    raise FormatError(
        f"{path} is neither a memory snapshot (it has no segments) nor a raw memory timeline of"
        " torch: make one with torch.cuda.memory._dump_snapshot, or with"
        " export_memory_timeline('….raw.json.gz')."
    )


def _document(content: bytes, name: str) -> Any:
    if content.startswith(b"\x80"):
        return load_plain_pickle(content, name)
    return load_plain_json(content, name)
