"""What was measured so far, a line of JSON for each script, so that a run can be taken up again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Records"]


class Records:
    """In memory and, where a path is given, in a file that is appended to and synced."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        if path is not None and path.exists():
            text = path.read_text()
            self._found = {(one["what"], one["name"]): one for one in _records(text)}
            if text and not text.endswith("\n"):  # we were killed while a line was written
                path.write_text(text + "\n")

    def add(self, what: str, name: str, record: Mapping[str, Any]) -> None:
        """problem, in a record: it could not be measured, and is tried again when taken up."""
        whole = {"what": what, "name": name, **record}
        self._found[what, name] = whole
        if self._path is None:
            return
        with self._path.open("a") as file:
            file.write(json.dumps(whole) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def is_done(self, what: str, name: str) -> bool:
        return "problem" not in self._found.get((what, name), {"problem": ""})

    def of(self, what: str) -> list[dict[str, Any]]:
        """What could be measured."""
        return [
            record
            for (kind, _), record in self._found.items()
            if kind == what and "problem" not in record
        ]

    def problems(self) -> dict[str, str]:
        return {
            f"{record['what']} {record['name']}": record["problem"]
            for record in self._found.values()
            if "problem" in record
        }


def _records(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the half of a line; it is measured again
