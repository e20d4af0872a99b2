"""stepscope.toml: the changes that tuning kept, for `stepscope run --apply`.

It can be written by hand:

    [[changes]]
    name = "loader"
    settings = { num_workers = 2, persistent_workers = true }
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from stepscope.errors import FormatError, UsageError
from stepscope.model.change import Applied, Change
from stepscope.model.plain import from_json
from stepscope.store.files import read_bytes, write_text

__all__ = ["TUNING_FILE", "read_applied", "read_changes", "write_changes"]

TUNING_FILE: Final = "stepscope.toml"
SCHEMA: Final = 1
_MAX_BYTES: Final = 1 << 20
_MOST_CHANGES: Final = 100


def write_changes(path: Path, changes: Sequence[Change], command: str) -> None:
    """command: what it was tuned for, as a person would type it."""
    lines = [
        f"# What `stepscope tune {_in_one_line(command)}` proved to help. To use it:",
        f"# stepscope run --apply {path.name} {_in_one_line(command)}",
        f"schema = {SCHEMA}",
    ]
    for change in changes:
        lines += ["", "[[changes]]"]
        lines += [f"{key} = {_toml(value)}" for key, value in _fields(change).items()]
    write_text(path, "\n".join(lines) + "\n", private=False)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _fields(change: Change) -> dict[str, Any]:
    return {key: value for key, value in change.to_dict().items() if value not in (None, "", {})}


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(str(key))} = {_toml(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool | int | float | str):
        return json.dumps(value)  # the same in TOML: escapes, true and false, numbers
    raise UsageError(f"A setting cannot be written into {TUNING_FILE}: {value!r}.")


def read_changes(path: Path) -> tuple[Change, ...]:
    """UsageError: there is no such file. FormatError: it holds no changes."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise FormatError(f"{path} is too large to be a {TUNING_FILE}.")
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no file {path}: stepscope tune writes one.") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} is not TOML ({error}): name a file that stepscope tune wrote."
        ) from error
    schema = document.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise FormatError(f"{path} was written by a newer stepscope: upgrade stepscope.")
    found = document.get("changes")
    if not isinstance(found, list) or len(found) > _MOST_CHANGES:
        raise FormatError(f"{path} has no list of [[changes]]: stepscope tune writes one.")
    return tuple(_change(path, one) for one in found)


def _change(path: Path, saved: Any) -> Change:
    if not isinstance(saved, dict):
        raise FormatError(f"{path}: a change is a table with a name and settings.")
    try:
        json.dumps(saved, allow_nan=False)  # dates and infinities are no settings
        return Change.from_dict(saved)
    except (FormatError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from error


def read_applied(path: Path) -> tuple[Applied, ...]:
    """What changes told of themselves in a run; () where there is no such file. A line that was cut
    off is left out."""
    try:
        lines = read_bytes(path, _MAX_BYTES).splitlines()
    except (FormatError, FileNotFoundError):
        return ()
    found: list[Applied] = []
    for line in lines:
        with contextlib.suppress(FormatError):
            found.append(from_json(Applied, line, "applied"))
    return tuple(dict.fromkeys(found))
