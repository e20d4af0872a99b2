"""Compares two groups of runs: reads them, judges, shows, and says with which code to exit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscope.config import RUNS_FOLDER
from stepscope.errors import FormatError, UsageError
from stepscope.printer import show
from stepscope.session.run_groups import find_runs
from stepscope.store.light import import_pyarrow_lightly
from stepscope.store.summary import read_summary

if TYPE_CHECKING:
    from stepscope.model.comparison import Comparison, RunFigures

__all__ = ["CompareOptions", "compare_runs", "read_figures", "show_comparison"]

REGRESSION, INCONCLUSIVE = 1, 3  # exit codes


class CompareOptions(NamedTuple):
    """What was asked for on the command line."""

    base: str
    new: str
    fail_over: float = 0.05
    strict: bool = False  # fail when nothing could be proved either
    junit: Path | None = None
    markdown: Path | None = None  # "-": on stdout, instead of the text
    json: bool = False


def show_comparison(options: CompareOptions) -> int:
    """Everything that was asked for. The exit code: 0, 1 on a proved regression, 3 if strict."""
    runs = Path(RUNS_FOLDER)
    comparison = compare_runs(
        find_runs(runs, options.base), find_runs(runs, options.new), options.fail_over
    )
    _write(comparison, options)
    if comparison.outcome == "regression":
        return REGRESSION
    return INCONCLUSIVE if options.strict and comparison.outcome == "inconclusive" else 0


def compare_runs(base: list[Path], new: list[Path], fail_over: float = 0.05) -> Comparison:
    """Of run folders. UsageError: a run is in both groups."""
    from stepscope.analyze.compare import compare

    both = {path.resolve() for path in base} & {path.resolve() for path in new}
    if both:
        raise UsageError(
            f"{min(both).name} is in both groups: name runs before and after a change."
        )
    import_pyarrow_lightly()
    return compare(
        [read_figures(run) for run in base], [read_figures(run) for run in new], fail_over
    )


def read_figures(run: Path) -> RunFigures:
    """What a run is compared by; from its events where it has no summary, or one that lacks it."""
    from stepscope.analyze.compare_figures import figures_of
    from stepscope.session.report import summarise_run

    summary = read_summary(run)
    if summary is None or (summary.steps.count and summary.steps.fast_ms is None):
        summary = summarise_run(run)
    name = str(summary.run.get("name") or run.resolve().name)
    return figures_of(summary, name, str(run), _torch_version(run))


def _torch_version(run: Path) -> str:
    """As the program said; "": it did not."""
    from stepscope.store.trace import open_trace

    try:
        told = [process.extra.get("torch") for process in open_trace(run).processes]
    except (FormatError, OSError):
        return ""
    return next((str(one) for one in told if one), "")


def _write(comparison: Comparison, options: CompareOptions) -> None:
    from stepscope.report.compare import as_markdown, render_comparison

    if options.junit is not None:
        from stepscope.report.junit import as_junit

        _save(options.junit, as_junit(comparison))
    on_stdout = options.markdown is not None and str(options.markdown) == "-"
    if options.markdown is not None and not on_stdout:
        _save(options.markdown, as_markdown(comparison))
    if options.json:
        show(json.dumps(comparison.to_dict(), ensure_ascii=False))
    elif on_stdout:
        show(as_markdown(comparison), end="")
    else:
        from stepscope.report.console import console_on

        render_comparison(comparison, console_on(sys.stdout))


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}): give another file."
        ) from error
