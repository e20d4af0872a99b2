"""Finds the runs that a user means by a word of the command line."""

from __future__ import annotations

import glob
from fnmatch import fnmatchcase
from pathlib import Path

from stepscope.errors import RunNotFoundError
from stepscope.store.index import list_runs
from stepscope.store.rundir import find_run, is_run

__all__ = ["find_runs"]


def find_runs(runs: Path, wanted: str) -> list[Path]:
    """Run folders, in the order in which they were named, each once.

    wanted: parts between commas, each a run folder, the name of a run in `runs`, "latest", a folder
    that holds runs, or a pattern of names or paths ("before-*").
    """
    found: dict[Path, Path] = {}
    for part in filter(None, map(str.strip, wanted.split(","))):
        for path in _find(runs, part):
            found.setdefault(path.resolve(), path)
    if not found:
        raise RunNotFoundError(f"{wanted!r} names no run: stepscope runs lists what there is.")
    return list(found.values())


def _find(runs: Path, part: str) -> list[Path]:
    if glob.has_magic(part):
        return _matching(runs, part)
    folder = Path(part)
    if folder.is_dir() and not is_run(folder) and not is_run(runs / part):
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and is_run(path))
        if inside:
            return inside
    return [find_run(runs, part)]


def _matching(runs: Path, pattern: str) -> list[Path]:
    # Path.glob takes no absolute patterns.
    paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207
    found = [path for path in paths if path.is_dir() and is_run(path)]
    if found:
        return found
    entries = [entry for entry in list_runs(runs) if _fits(entry.name, entry.path, pattern)]
    if not entries:
        raise RunNotFoundError(f"No run fits {pattern!r}: stepscope runs lists what there is.")
    return [Path(entry.path) for entry in reversed(entries)]


def _fits(name: str, path: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(Path(path).name, pattern)
