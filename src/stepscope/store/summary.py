"""summary.json: the result of a run as other programs read it (summary.schema.json)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepscope.errors import FormatError
from stepscope.model.plain import LARGEST
from stepscope.model.strict_json import strict_json
from stepscope.model.summary import SCHEMA, Summary
from stepscope.store.files import read_json, write_json

__all__ = ["read_summary", "read_summary_json", "write_summary"]

_FILE = "summary.json"


def write_summary(run: Path, summary: Summary) -> None:
    write_json(run / _FILE, strict_json(summary.to_dict(), LARGEST))


def read_summary(run: Path) -> Summary | None:
    """None: the run goes on, or was cut off before it was summarised."""
    document = read_summary_json(run)
    if document is None:
        return None
    try:
        return Summary.from_dict(document)
    except FormatError as error:
        raise FormatError(f"{run / _FILE} cannot be used. {error}") from error


def read_summary_json(run: Path) -> dict[str, Any] | None:
    """As read_summary, but only its schema number was looked at."""
    path = run / _FILE
    try:
        summary = read_json(path)
    except FileNotFoundError:
        return None
    schema = summary.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise FormatError(f"{path} says no schema number: it is not a summary of stepscope.")
    if schema > SCHEMA:
        raise FormatError(
            f"{path} was written by a newer stepscope (summary schema {schema}, this one reads"
            f" {SCHEMA}): upgrade with pip install -U stepscope."
        )
    return summary
