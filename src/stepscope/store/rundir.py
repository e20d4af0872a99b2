"""Run folders: making one, finding one, and what meta.json says about it."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.errors import FormatError, RunNotFoundError, UsageError
from stepscope.model.meta import Meta
from stepscope.model.plain import from_plain
from stepscope.store.files import PRIVATE_FOLDER, read_json, write_json

__all__ = ["META_SCHEMA", "NewRun", "create_run", "find_run", "is_run", "read_meta", "write_meta"]

META_SCHEMA = 1
LATEST = "latest"
_META = "meta.json"
_FOLDERS = ("rank-00000", "host")
_NAME = re.compile(r"[^\W_][\w.+-]*")


class NewRun(NamedTuple):
    """A folder that was just made. `notice`: what the user should know about it, or ""."""

    path: Path
    name: str
    notice: str = ""


def create_run(runs: Path, label: str, output: Path | None = None, name: str = "") -> NewRun:
    """A new, empty folder: `output`, or in `runs` under `name` or the time and `label`.

    An existing run is never written into. A place that cannot be written gives way to a temporary
    folder: training must not wait for a disk that only stepscope needs.
    """
    if name and not _NAME.fullmatch(name):
        raise UsageError(f"--name {name!r} is not a name: use letters, digits and . _ + - only.")
    if output is not None:
        _refuse_used(output)
        candidates = iter([output])
    else:
        stem = name or f"{time.strftime('%Y%m%d-%H%M%S')}-{_label(label)}"
        suffixes = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
        candidates = (runs / f"{stem}{suffix}" for suffix in suffixes)
    try:
        path = _make_first(candidates, may_exist=output is not None)
    except OSError as error:
        return _make_temporary(output or runs, error, name)
    taken = name and output is None and path.name != name
    notice = f"the name {name} is taken: this run is {path.name}." if taken else ""
    return NewRun(path.resolve(), name if output is not None and name else path.name, notice)


def _label(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.")[:40] or "run"


def _refuse_used(output: Path) -> None:
    try:
        used = output.is_dir() and any(output.iterdir())
    except OSError:
        return  # making the folder will say it better
    if used and is_run(output):
        raise UsageError(
            f"{output} already holds a run: give another folder with -o, or delete it."
        )
    if used:
        raise UsageError(f"{output} is not empty: give a new or empty folder with -o.")


def _make_first(candidates: Any, *, may_exist: bool) -> Path:
    for path in candidates:
        try:
            path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=may_exist)
        except FileExistsError:
            if may_exist:
                raise
            continue
        probe = path / ".writable"  # some folders can be made or entered, but not written to
        probe.touch()
        probe.unlink()
        return Path(path)
    raise AssertionError("the candidates never end")


def _make_temporary(wanted: Path, error: OSError, name: str) -> NewRun:
    import tempfile

    try:
        path = Path(tempfile.mkdtemp(prefix="stepscope-"))
    except OSError as second:
        raise UsageError(
            f"Neither {wanted} ({error.strerror}) nor a temporary folder ({second.strerror}) can be"
            " written: give a writable folder with -o."
        ) from second
    notice = f"cannot write to {wanted} ({error.strerror}): this run goes to {path}."
    return NewRun(path, name or path.name, notice)


def is_run(path: Path) -> bool:
    """It is enough that something was recorded: a run whose meta.json is lost can be read."""
    try:
        return (path / _META).exists() or any((path / one).is_dir() for one in _FOLDERS)
    except OSError:  # It may be one: reading it says what is wrong.
        return True


def find_run(runs: Path, wanted: str = LATEST) -> Path:
    """A path, the name of a run in `runs`, or "latest"."""
    if wanted == LATEST:
        return _latest(runs)
    for path in (Path(wanted), runs / wanted):
        try:
            if path.is_dir() and is_run(path):
                os.scandir(path).close()
                return path
        except OSError as error:
            raise RunNotFoundError(
                f"The run folder {path} cannot be read ({error.strerror}): check its permissions."
            ) from error
    if Path(wanted).exists():
        raise RunNotFoundError(
            f"{wanted} is not a run of stepscope: point to a folder that stepscope run made"
            " (stepscope runs lists them)."
        )
    raise RunNotFoundError(f"There is no run {wanted}: stepscope runs lists what there is.")


def _latest(runs: Path) -> Path:
    found = [path for path in _subfolders(runs) if is_run(path)]
    if not found:
        raise RunNotFoundError(
            f"There is no run in {runs}: record one with stepscope run train.py, or name a run"
            " folder."
        )
    return max(found, key=_started)


def _started(path: Path) -> float:
    try:
        started = read_meta(path).get("started_unix")
        return path.stat().st_mtime if started is None else started
    except (FormatError, OSError):
        return 0.0


def _subfolders(runs: Path) -> list[Path]:
    try:
        return [entry for entry in runs.iterdir() if entry.is_dir()]
    except OSError:
        return []


def read_meta(run: Path) -> Meta:
    """Empty when it is lost; the events can still be read. Raises FormatError."""
    path = run / _META
    try:
        plain = read_json(path)
    except FileNotFoundError:
        return {}
    schema = plain.get("schema")
    if isinstance(schema, int) and schema > META_SCHEMA:
        raise FormatError(
            f"{path} was written by a newer stepscope (schema {schema}, this one reads"
            f" {META_SCHEMA}): upgrade with pip install -U stepscope."
        )
    try:
        meta: Meta = from_plain(Meta, plain, "meta")
    except FormatError as error:
        raise FormatError(f"{path} cannot be used: {error} Restore or delete it.") from error
    return meta


def write_meta(run: Path, meta: Mapping[str, Any]) -> None:
    write_json(run / _META, {"schema": META_SCHEMA, **meta})
