"""The header of a recording process: JSON bytes → ProcessInfo."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from stepscope.model.process import ProcessInfo

__all__ = ["process_from_json", "process_to_json"]

_INTEGERS = ("pid", "parent_pid", "rank", "world_size", "monotonic_ns", "unix_ns")
_TEXTS = ("host", "role", "python", "core")


def process_to_json(process: ProcessInfo) -> bytes:
    return json.dumps(dataclasses.asdict(process), separators=(",", ":")).encode()


def process_from_json(data: bytes) -> ProcessInfo:
    """ValueError: these bytes are no header. Fields that we do not know are passed over."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("the header is not JSON") from error
    if not isinstance(fields, dict):
        raise ValueError("the header is not a JSON object")
    argv, extra = fields.get("argv", []), fields.get("extra", {})
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        raise ValueError("the header's argv is not a list of strings")
    if not isinstance(extra, dict):
        raise ValueError("the header's extra is not an object")
    return ProcessInfo(
        **{name: _typed(fields, name, int) for name in _INTEGERS},
        **{name: _typed(fields, name, str) for name in _TEXTS},
        argv=tuple(argv),
        extra=extra,
    )


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"the header has no valid {name}")
    return value
