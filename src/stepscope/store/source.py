"""The user's source files, read with bounds: what a run says about them may be wrong or forged."""

from __future__ import annotations

import stat
from pathlib import Path

from stepscope.model.source import NO_SOURCE, SourceText

__all__ = ["SourceReader"]

_SUFFIXES = frozenset({".py", ".pyw", ".pyx"})  # a run must not make us show any other file
_MAX_BYTES = 4 << 20
_MAX_FILES = 64


class SourceReader:
    """Gives lines of Python files; nothing for what is missing, foreign or too large."""

    def __init__(self, base: Path, began_unix: float | None) -> None:
        self._base = base  # relative names count from here
        self._began_unix = began_unix
        self._files: dict[str, SourceText] = {}

    def lines(self, file: str, first: int, last: int) -> SourceText:
        if file not in self._files:
            if len(self._files) >= _MAX_FILES:
                return NO_SOURCE
            self._files[file] = self._read(file)
        known = self._files[file]
        return known._replace(lines=known.lines[max(0, first - 1) : max(0, last)])

    def _read(self, file: str) -> SourceText:
        try:
            path = self._base / file
            status = path.stat()
            fitting = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES
            if path.suffix not in _SUFFIXES or not fitting:
                return NO_SOURCE
            content = path.read_bytes()[:_MAX_BYTES]
        except (OSError, ValueError):  # no such file, or no name of one
            return NO_SOURCE
        changed = self._began_unix is not None and status.st_mtime > self._began_unix
        return SourceText(tuple(content.decode("utf-8", "replace").split("\n")), changed)
