"""details.json: what stands behind the findings of a run (details.schema.json)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import FormatError
from stepscope.store.files import read_json, write_json
from stepscope.store.plain import from_plain, to_plain

if TYPE_CHECKING:
    from stepscope.model.checkpoint_details import Checkpointing
    from stepscope.model.details import Details
    from stepscope.model.memory import Memory
    from stepscope.model.timeline import Timeline

__all__ = ["DETAILS_SCHEMA", "read_details", "write_details"]

DETAILS_SCHEMA = 1
_FILE = "details.json"
_MAX_STEPS = 20_000  # far more than are kept
_LARGEST = 1e18  # bytes, ms or steps: what goes beyond cannot be reckoned with
_SIZES = frozenset(  # never below 0
    (
        *("bytes", "parts_bytes", "live_bytes", "reserved_bytes", "at_ms"),
        *("calls", "recompute_ms", "share", "steps", "saved_bytes"),
        *("peak_bytes", "step_ms", "budget_bytes", "smallest_peak_bytes", "segments"),
    )
)


def write_details(run: Path, details: Details) -> None:
    """In few bytes: there may be thousands of frames and points in it."""
    write_json(run / _FILE, {"schema": DETAILS_SCHEMA, **to_plain(details)}, indent=None)


def read_details(run: Path) -> Details | None:
    """None: the run has none (it goes on, was cut off, or is older than they are)."""
    from stepscope.model.details import Details

    path = run / _FILE
    try:
        plain = read_json(path)
    except FileNotFoundError:
        return None
    schema = plain.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise FormatError(f"{path} says no schema number: it is not a file of stepscope.")
    if schema > DETAILS_SCHEMA:
        raise FormatError(
            f"{path} was written by a newer stepscope (details schema {schema}, this one reads"
            f" {DETAILS_SCHEMA}): upgrade with pip install -U stepscope."
        )
    try:
        details: Details = from_plain(Details, plain, "details")
        if details.timeline is not None:
            _check_timeline(details.timeline)
        if details.memory is not None:
            _check_memory(details.memory)
            _check_numbers("memory", plain["memory"])
        if details.checkpointing is not None:
            _check_checkpointing(details.checkpointing)
            _check_numbers("checkpointing", plain["checkpointing"])
    except (FormatError, RecursionError) as error:
        raise FormatError(f"{path} cannot be used: {error} Restore or delete it.") from error
    return details


def _check_timeline(timeline: Timeline) -> None:
    from stepscope.model.timeline import MAX_POINTS

    if max(len(timeline.buckets), len(timeline.points)) > MAX_POINTS:
        raise FormatError(f"details.timeline has more than {MAX_POINTS} buckets or points.")
    if any(len(bucket.ms) != len(timeline.phases) for bucket in timeline.buckets):
        raise FormatError("details.timeline has a bucket with other phases than its own.")


def _check_memory(memory: Memory) -> None:
    """What the types of the values cannot say, but for single numbers."""
    from stepscope.model.memory import CATEGORIES, MAX_MEMORY_POINTS

    for device in memory.devices:
        if len(device.points) > MAX_MEMORY_POINTS or len(device.steps) > _MAX_STEPS:
            raise FormatError(
                f"details.memory has a device with more than {MAX_MEMORY_POINTS:,} points, or"
                f" {_MAX_STEPS:,} steps."
            )
        if any(len(point.bytes) != len(CATEGORIES) for point in device.points):
            raise FormatError("details.memory has a point with other categories than ours.")
        if any(len(step) != 3 for step in device.steps):
            raise FormatError("details.memory has a step that is not three numbers.")
        if any(part.category not in CATEGORIES for part in device.peak.parts):
            raise FormatError("details.memory has a part of a peak of an unknown category.")
    if memory.headroom is not None and len(memory.headroom.steps or (0, 0, 0)) != 3:
        raise FormatError("details.memory.headroom.steps is not three numbers.")


def _check_checkpointing(found: Checkpointing) -> None:
    from stepscope.model.checkpoint_details import MAX_CHECKPOINTED

    lists = [found.layers] if found.plan is None else [found.plan.blocks, found.plan.curve]
    if max(len(one) for one in (found.layers, *lists)) > MAX_CHECKPOINTED:
        raise FormatError(f"details.checkpointing has more than {MAX_CHECKPOINTED:,} layers.")


def _check_numbers(part: str, values: Any) -> None:
    """Pictures and words divide and round them: none may be too large, and no size below 0."""
    waiting: list[tuple[str, Any]] = [(part, values)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((name, one) for one in value)
        elif isinstance(value, int | float):
            if not -_LARGEST < value < _LARGEST:
                raise FormatError(f"details.{part} has a number in {name} that is too large.")
            if value < 0 and name in _SIZES:
                raise FormatError(f"details.{part} has {name} below 0.")
