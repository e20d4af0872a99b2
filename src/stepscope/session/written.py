"""Writes what the bottleneck profilers found to files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.advise.loading import best_profile
from stepscope.errors import MissingExtraError, StepscopeError
from stepscope.model.bottlenecks import ProfilingSession
from stepscope.model.loading import DataLoadingProfile, PreprocessingProfile
from stepscope.session.extensions import Extensions

__all__ = ["ReportPaths", "report_formats", "report_plots", "write_loading", "write_session"]


class ReportPaths(NamedTuple):
    """Where the files of a report lie; `more`: those of formats and plots that others added.
    `note` says why a picture or one of those is not there."""

    markdown: Path
    json: Path
    png: Path | None = None
    note: str = ""
    more: tuple[Path, ...] = ()


def report_formats() -> Extensions:
    """Functions that take a ProfilingSession and give a text, or bytes, by the ending of the file
    that it is written to."""
    return Extensions("stepscope.reports", "a ProfilingSession")


def report_plots() -> Extensions:
    """Functions that take a ProfilingSession and an empty matplotlib Figure, and draw into it, by
    the name of the picture."""
    return Extensions("stepscope.plots", "a ProfilingSession and a Figure")


def write_session(
    session: ProfilingSession,
    folder: Path,
    formats: Extensions | None = None,
    plots: Extensions | None = None,
) -> ReportPaths:
    """Three files, named after the session, and those of the formats and plots."""
    formats, plots = formats or report_formats(), plots or report_plots()
    from stepscope.report.bottlenecks import session_markdown
    from stepscope.report.panels import draw_session, draw_with

    now = datetime.now(UTC).astimezone()
    name = session.session_id
    paths = _write_pages(folder, name, session_markdown(session, now), session.to_dict())
    more, notes = [], []
    for ending, render in formats.all().items():
        path = folder / f"{name}_report.{ending}"
        try:
            page = render(session)
            path.write_bytes(page if isinstance(page, bytes) else str(page).encode())
            more.append(path)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            notes.append(f"The report format {ending} failed: {type(error).__name__}: {error}.")
    picture = folder / f"{name}_visualizations.png"
    try:
        draw_session(session, picture)
    except MissingExtraError as error:
        return paths._replace(note=" ".join([str(error), *notes]), more=tuple(more))
    for title, draw in plots.all().items():
        path = folder / f"{name}_{title}.png"
        try:
            draw_with(draw, session, path)
            more.append(path)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            notes.append(f"The plot {title} failed: {type(error).__name__}: {error}.")
    return paths._replace(png=picture, note=" ".join(notes), more=tuple(more))


def _write_pages(folder: Path, name: str, markdown: str, data: Any) -> ReportPaths:
    """A Markdown page and its data; StepscopeError: they cannot be written there."""
    paths = ReportPaths(folder / f"{name}_report.md", folder / f"{name}_report.json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths.markdown.write_text(markdown, "utf-8")
        paths.json.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise StepscopeError(f"The report cannot be written to {folder}: {error}.") from error
    return paths


def write_loading(
    loaders: Sequence[DataLoadingProfile],
    functions: Sequence[PreprocessingProfile],
    folder: Path,
    name: str,
) -> ReportPaths:
    """Two files, named by what was profiled and when."""
    from stepscope.report.loading import loading_markdown

    now = datetime.now(UTC).astimezone()
    candidates = [one for one in loaders if one.score]
    best = best_profile(candidates) if candidates else None
    page = loading_markdown(loaders, functions, best, now)
    data = {
        "generated": now.isoformat(),
        "data_loading": [one.to_dict() for one in loaders],
        "best": None if best is None else best.to_dict(),
        "preprocessing": [one.to_dict() for one in functions],
    }
    return _write_pages(folder, f"{name}_{now:%Y%m%d_%H%M%S}", page, data)
