"""summary.json: the result of a run as other programs read it (summary.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscope.errors import FormatError
from stepscope.store.files import read_json, write_json

__all__ = ["SUMMARY_SCHEMA", "read_summary", "write_summary"]

SUMMARY_SCHEMA = 1
_FILE = "summary.json"


def write_summary(run: Path, summary: Mapping[str, Any]) -> None:
    write_json(run / _FILE, summary)


def read_summary(run: Path) -> dict[str, Any] | None:
    """None: the run was cut off before it was summarised."""
    path = run / _FILE
    try:
        summary = read_json(path)
    except FileNotFoundError:
        return None
    schema = summary.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise FormatError(f"{path} says no schema number: it is not a summary of stepscope.")
    if schema > SUMMARY_SCHEMA:
        raise FormatError(
            f"{path} was written by a newer stepscope (summary schema {schema}, this one reads"
            f" {SUMMARY_SCHEMA}): upgrade with pip install -U stepscope."
        )
    return summary
