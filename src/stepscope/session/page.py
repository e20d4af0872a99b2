"""Makes report.html of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.advise.fragmentation import advise_fragmentation
from stepscope.errors import FormatError, MissingExtraError, UsageError
from stepscope.session.troubles import say
from stepscope.store.details import read_details
from stepscope.store.files import write_text
from stepscope.store.rundir import read_meta
from stepscope.store.source import SourceReader

if TYPE_CHECKING:
    from stepscope.model.details import Details
    from stepscope.model.summary import Summary

__all__ = ["PAGE", "needs_templates", "write_page"]

PAGE = "report.html"


def write_page(run: Path, summary: Summary, output: Path | None = None) -> Path:
    """Where it is: `output`, a file to be shared, or report.html of the run, which is private.
    Details that cannot be read are told of and left out."""
    with needs_templates():
        from stepscope.report.html import render_page
    meta = read_meta(run)
    reader = SourceReader(Path(meta.get("cwd") or run), meta.get("started_unix"))
    path = output or run / PAGE
    page = render_page(summary, _details(run), reader.lines)
    try:
        write_text(path, page, private=output is None)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}): name another file with -o."
        ) from error
    return path


@contextmanager
def needs_templates() -> Iterator[None]:
    """Around an import of what makes pages: jinja2 is an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise MissingExtraError("What makes pages (jinja2)", "html") from error


def _details(run: Path) -> Details | None:
    try:
        details = read_details(run)
    except FormatError as error:
        say(str(error))
        return None
    if details is None or details.memory is None:
        return details
    return replace(details, memory=advise_fragmentation(details.memory))
