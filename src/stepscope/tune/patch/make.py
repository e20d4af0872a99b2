"""From changes and the calls they took hold of to edits of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stepscope.model.change import Applied, Change
from stepscope.tune.patch.constructors import write_batch, write_loader, write_optimizer
from stepscope.tune.patch.forward import write_autocast, write_compile, write_layout
from stepscope.tune.patch.hints import setting_for
from stepscope.tune.patch.script import write_denormals, write_gc, write_threads
from stepscope.tune.patch.source import Refuse, Source, read_source
from stepscope.tune.patch.tensors import (
    write_float32,
    write_non_blocking,
    write_recompute,
    write_zero_grad,
)
from stepscope.tune.patch.values import Edit, NotWritten, Patch

__all__ = ["make_patch"]

# Plans the edits of one file; the text says what is left to be done by hand.
Writer = Callable[[Source, Change, Sequence[Applied]], str | None]
_WRITERS: Final[dict[str, Writer]] = {
    "autocast": write_autocast,
    "batch": write_batch,
    "compile": write_compile,
    "denormals": write_denormals,
    "float32": write_float32,
    "gc": write_gc,
    "layout": write_layout,
    "loader": write_loader,
    "non-blocking": write_non_blocking,
    "optimizer": write_optimizer,
    "recompute": write_recompute,
    "threads": write_threads,
    "zero-grad": write_zero_grad,
}
_OF_SCRIPT: Final = ("denormals", "threads")  # made once, for the whole program
# Half of it is worse than none: tensors of two dtypes meet.
_ALL_OR_NOTHING: Final = ("float32",)
_NO_CODE: Final = "it is more than an edit of a line: the profiler makes it while the program runs"
_NO_PLAN: Final = "a plan is a file of its own, which the program can apply"


def make_patch(
    changes: Sequence[tuple[Change, Sequence[Applied]]], root: Path, script: Path | None
) -> Patch:
    work = _Work(root, script)
    for change, applied in changes:
        told = [one for one in applied if not one.refused]
        work.plan(change, [one for one in told if _is_meant(change, one, root)])
    return work.patch()


def _is_meant(change: Change, site: Applied, root: Path) -> bool:
    """A change may be for one call alone, while others of its name are for other calls."""
    meant = change.settings.get("site")
    if not isinstance(meant, Mapping) or site.file is None:
        return True
    same_file = (root / site.file).resolve() == (root / str(meant.get("file"))).resolve()
    return same_file and site.line == meant.get("line")


class _Work:
    """The files that are being edited, and what is not written."""

    def __init__(self, root: Path, script: Path | None) -> None:
        self._root, self._script = root, script
        self._sources: dict[Path, Source] = {}
        self._written: dict[Path, list[Change]] = {}
        self._refused: list[NotWritten] = []

    def plan(self, change: Change, sites: Sequence[Applied]) -> None:
        writer = _WRITERS.get(change.name)
        if writer is None:
            self._refuse(change, _NO_PLAN if change.name == "plan" else _NO_CODE)
            return
        if not sites:
            self._refuse(change, "the trial changed nothing in the program")
        marks = {source.path: source.planned() for source in self._sources.values()}
        done = [self._plan_file(change, writer, *one) for one in self._by_file(change, sites)]
        if change.name in _ALL_OR_NOTHING and not all(done):
            for source in self._sources.values():
                source.back(marks.get(source.path, ({}, {}, [])))

    def _by_file(
        self, change: Change, sites: Sequence[Applied]
    ) -> Iterable[tuple[str | None, list[Applied]]]:
        """The program's own calls decide how many threads there are, where it has some."""
        files: dict[str | None, list[Applied]] = {}
        for site in sites:
            files.setdefault(site.file, []).append(site)
        if change.name in _OF_SCRIPT and None in files:
            nowhere = files.pop(None)
            if not files:
                return [(None if self._script is None else str(self._script), nowhere)]
        return files.items()

    def _plan_file(
        self, change: Change, writer: Writer, file: str | None, sites: list[Applied]
    ) -> bool:
        """All lines together, as they were measured; where that fails, each that can be."""
        try:
            source = self._source(file)
        except Refuse as why:
            self._refuse(change, str(why))
            return False
        if self._plan_lines(change, writer, source, sites, is_last=len(sites) == 1):
            return True
        done = [
            self._plan_lines(change, writer, source, [site], is_last=True)
            for site in sites
            if len(sites) > 1
        ]
        return bool(done) and all(done)

    def _plan_lines(
        self,
        change: Change,
        writer: Writer,
        source: Source,
        sites: list[Applied],
        *,
        is_last: bool,
    ) -> bool:
        mark = source.planned()
        try:
            left = writer(source, change, sites)
        except Refuse as why:
            source.back(mark)
            if is_last:
                self._refuse(change, str(why))
            return False
        self._written.setdefault(source.path, []).append(change)
        if left:
            self._refuse(change, left)
        return True

    def _source(self, file: str | None) -> Source:
        source = read_source(file, self._root)
        return self._sources.setdefault(source.path, source)

    def _refuse(self, change: Change, why: str) -> None:
        refused = NotWritten(change, why, setting_for(change))
        if refused not in self._refused:
            self._refused.append(refused)

    def patch(self) -> Patch:
        edits = [edit for source in self._sources.values() if (edit := self._edit(source))]
        files = {edit.file for edit in edits}
        notes = [n for s in self._sources.values() if str(s.path) in files for n in s.notes]
        return Patch(tuple(edits), tuple(self._refused), tuple(notes))

    def _edit(self, source: Source) -> Edit | None:
        try:
            return source.edit()
        except Refuse as why:
            for change in self._written.get(source.path, []):
                self._refuse(change, str(why))
            return None
