"""Changes of a stepscope.toml in a run: checked before it starts, told of when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.store.tuning_file import read_applied, read_changes
from stepscope.tune.changes import NAMES
from stepscope.tune.injection import APPLIED_FILE

__all__ = ["applied_lines", "changes_to_make"]


def changes_to_make(path: Path) -> str:
    """As the program is told of them (config.ENV_APPLY). UsageError, FormatError: it cannot be."""
    changes = read_changes(path)
    for change in changes:
        if change.name not in NAMES:
            known = ", ".join(NAMES)
            raise UsageError(f"{path}: there is no change {change.name!r}. There are: {known}.")
    return json.dumps([change.to_dict() for change in changes])


def applied_lines(run: Path, changes: str) -> Iterator[str]:
    """What became of each change in this run."""
    told = read_applied(run / APPLIED_FILE)
    for change in json.loads(changes):
        about = [one for one in told if one.change == change["name"]]
        done = [one for one in about if not one.refused]
        for one in done:
            place = f" at {one.file}:{one.line}" if one.file else ""
            yield f"applied {one.change}: {one.what}{place}"
        if not done:
            why = "; ".join(one.what for one in about) or "it found nothing to change"
            yield f"not applied: {change['name']}: {why}"
