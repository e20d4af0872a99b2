"""details.json: what stands behind the findings of a run (details.schema.json)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import FormatError
from stepscope.model.plain import from_plain, to_plain
from stepscope.store.files import read_json, write_json

if TYPE_CHECKING:
    from stepscope.model.details import Details
    from stepscope.model.timeline import Timeline

__all__ = ["DETAILS_SCHEMA", "read_details", "write_details"]

DETAILS_SCHEMA = 1
_FILE = "details.json"


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
        _check_timeline(details.timeline)
    except FormatError as error:
        raise FormatError(f"{path} cannot be used: {error} Restore or delete it.") from error
    return details


def _check_timeline(timeline: Timeline | None) -> None:
    """What its types cannot say."""
    if timeline is not None and any(
        len(bucket.ms) != len(timeline.phases) for bucket in timeline.buckets
    ):
        raise FormatError("details.timeline has a bucket with other phases than its own.")
