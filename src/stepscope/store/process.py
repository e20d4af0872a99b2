"""The header of a recording process: JSON bytes → ProcessInfo."""

from __future__ import annotations

import dataclasses
import json

from stepscope.model.plain import from_json
from stepscope.model.process import ProcessInfo

__all__ = ["process_from_json", "process_to_json"]


def process_to_json(process: ProcessInfo) -> bytes:
    return json.dumps(dataclasses.asdict(process), separators=(",", ":")).encode()


def process_from_json(data: bytes) -> ProcessInfo:
    """Raises FormatError if these bytes are no header. Unknown fields are ignored."""
    made: ProcessInfo = from_json(ProcessInfo, data, "header")
    return made
