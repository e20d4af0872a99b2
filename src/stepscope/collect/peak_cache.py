"""Peaks that were measured before, in the user's cache folder.

A cache is a help and never a trouble: what cannot be read, is not ours or cannot be true is as good
as absent, and what cannot be written is not.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Measured", "cache_file", "read", "write"]

_SCHEMA = 1
_ROOM_BYTES = 1 << 20
_ENTRIES = 100  # hosts that get a new name with every start would fill the file
_PLAUSIBLE = (1e6, 1e18)  # FLOP/s; a single device beyond these is a damaged file


class Measured(NamedTuple):
    flops_per_s: float
    unix_s: float


def cache_file() -> Path:
    """Where peaks are kept for this user."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    # A relative folder is to be ignored, says the XDG specification.
    base = Path(folder) if os.path.isabs(folder) else Path("~/.cache").expanduser()  # noqa: PTH117
    return base / "stepscope" / "peak-flops.json"


def read(path: Path, key: str) -> Measured | None:
    """What was measured for a machine and a setting; None: nothing that can be relied on."""
    return _entries(path).get(key)


def write(path: Path, key: str, measured: Measured) -> None:
    """Keep a measurement, if that is possible. Readers see the old file or the new one."""
    entries = _entries(path)
    entries.pop(key, None)
    newest = sorted(entries.items(), key=lambda item: item[1].unix_s)[-(_ENTRIES - 1) :]
    kept = {name: list(one) for name, one in [*newest, (key, measured)]}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps({"schema": _SCHEMA, "entries": kept}, indent=1))


def _replace(path: Path, text: str) -> None:
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)  # noqa: PTH105
    except OSError:
        os.unlink(name)  # noqa: PTH108
        raise


def _entries(path: Path) -> dict[str, Measured]:
    try:
        found = json.loads(_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.get("schema") != _SCHEMA:
        return {}
    entries = found.get("entries")
    if not isinstance(entries, dict):
        return {}
    return {key: Measured(*map(float, one)) for key, one in entries.items() if _is_sound(one)}


def _text(path: Path) -> str:
    """The text of a small regular file; a pipe in its place must not keep us waiting."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _ROOM_BYTES:
            raise OSError(f"{path} is no cache of ours")
        return file.read(_ROOM_BYTES).decode("utf-8")


def _is_sound(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 2:
        return False
    if not all(type(one) in (int, float) and abs(one) < _PLAUSIBLE[1] for one in entry):
        return False
    flops_per_s, unix_s = entry
    return math.isfinite(unix_s) and unix_s >= 0 and flops_per_s > _PLAUSIBLE[0]
