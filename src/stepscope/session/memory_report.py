"""Shows where the bytes are: of a run, or of another tool's file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.advise.fragmentation import advise_fragmentation
from stepscope.config import RUNS_FOLDER
from stepscope.errors import NoResultsError, UsageError
from stepscope.model.plain import to_plain
from stepscope.printer import show
from stepscope.store.details import DETAILS_SCHEMA, read_details
from stepscope.store.files import write_bytes
from stepscope.store.rundir import find_run, read_meta

if TYPE_CHECKING:
    from stepscope.model.memory import Memory

__all__ = ["MemoryOptions", "show_memory"]


class MemoryOptions(NamedTuple):
    """`wanted`: a file, a run folder, the name of a run, or latest. `export`: "perfetto", "csv" or
    "parquet". `output`: where html and export go."""

    wanted: str
    json: bool = False
    html: bool = False
    export: str | None = None
    output: Path | None = None


class _Found(NamedTuple):
    memory: Memory
    name: str
    folder: Path  # names of source files count from here
    began_unix: float | None = None


def show_memory(options: MemoryOptions) -> None:
    """On stdout, or into a file whose path is printed."""
    writes = options.html or options.export is not None
    if writes and options.output is None:
        raise UsageError("Say where to write it: -o FILE.")
    if options.output is not None and not writes:
        raise UsageError("-o goes with --html or --export: say what to write there.")
    found = _find(options.wanted)
    if options.output is None:
        _print(found, as_json=options.json)
        return
    content = _page(found) if options.html else _exported(found.memory, options.export or "")
    try:
        write_bytes(options.output, content, private=False)
    except OSError as error:
        raise UsageError(
            f"{options.output} cannot be written ({error.strerror}): name another place with -o."
        ) from error
    show(str(options.output))


def _find(wanted: str) -> _Found:
    path = Path(wanted)
    if path.exists() and not path.is_dir():
        return _Found(advise_fragmentation(_of_file(path)), path.name, path.parent)
    run = find_run(Path(RUNS_FOLDER), wanted)
    meta = read_meta(run)
    return _Found(
        advise_fragmentation(_of_run(run)),
        run.resolve().name,
        Path(meta.get("cwd") or run),
        meta.get("started_unix"),
    )


def _of_file(path: Path) -> Memory:
    from stepscope.analyze.memory_files import memory_of_snapshot, memory_of_timeline
    from stepscope.interop.load import load_memory_file
    from stepscope.model.allocations import AllocatorSnapshot

    loaded = load_memory_file(path)
    if isinstance(loaded, AllocatorSnapshot):
        return memory_of_snapshot(loaded)
    return memory_of_timeline(loaded)


def _of_run(run: Path) -> Memory:
    """A run without details (it goes on, or was killed) is analysed as it is."""
    details = read_details(run)
    if details is None:
        from stepscope.session.report import fold_run
        from stepscope.store.light import import_pyarrow_lightly

        import_pyarrow_lightly()
        details = fold_run(run)[1]
    if details.memory is None:
        raise NoResultsError(
            f"{run.name} was recorded without memory: record it with stepscope run --memory, or"
            " name a memory file of torch."
        )
    return details.memory


def _print(found: _Found, *, as_json: bool) -> None:
    if as_json:
        document = {"schema": DETAILS_SCHEMA, **to_plain(found.memory)}
        show(json.dumps(document))
        return
    from stepscope.report.console import console_on
    from stepscope.report.memory import render_memory

    render_memory(found.memory, found.name, console_on(sys.stdout))


def _page(found: _Found) -> bytes:
    from stepscope.session.page import needs_templates
    from stepscope.store.source import SourceReader

    with needs_templates():
        from stepscope.report.html import render_memory_page
    reader = SourceReader(found.folder, found.began_unix)
    page = render_memory_page(found.memory, found.name, str(found.folder), reader.lines)
    return page.encode("utf-8", "replace")


def _exported(memory: Memory, form: str) -> bytes:
    from stepscope.interop.perfetto import memory_to_perfetto
    from stepscope.interop.tables import memory_to_csv, memory_to_parquet

    writers = {
        "perfetto": memory_to_perfetto,
        "csv": memory_to_csv,
        "parquet": memory_to_parquet,
    }
    if form not in writers:
        raise UsageError(f"There is no export {form!r}: choose one of {', '.join(writers)}.")
    return writers[form](memory)
