"""The cells of a comparison, as text and Markdown both show them."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.comparison import (
    Comparison,
    FigureRow,
    Judgement,
    Metric,
    Outcome,
    Ratio,
    percent_change,
)
from stepscope.report.units import bytes_text, duration

__all__ = [
    "FIGURES",
    "PHASES",
    "change",
    "figure_cells",
    "headline",
    "interval",
    "phase_cells",
    "value_text",
]

FIGURES = ("figure", "base", "new", "change", "interval", "")
PHASES = ("phase", "base ms", "share", "new ms", "share", "change", "interval")
_SAYS = {
    Judgement.WORSE: "worse",
    Judgement.BETTER: "better",
    Judgement.SAME: "no change",
    Judgement.UNCLEAR: "cannot tell",
    None: "",
}
_BY = {"pairs": " (pairs)", "speed": " (speed)"}
_HEADLINES = {
    Outcome.REGRESSION: "Regression: the new runs are worse, and that is no chance.",
    Outcome.IMPROVEMENT: "Improvement: the new runs are better, and that is no chance.",
    Outcome.NO_CHANGE: "No change: a regression of {limit} is ruled out.",
    Outcome.INCONCLUSIVE: "Inconclusive: these runs cannot tell a regression of {limit}.",
}


def headline(comparison: Comparison) -> str:
    return _HEADLINES[comparison.outcome].format(limit=f"{comparison.fail_over * 100:.3g} %")


def figure_cells(row: FigureRow) -> tuple[str, ...]:
    metric = row.metric
    says = _SAYS[row.judgement]
    return (
        metric.title,
        value_text(metric, row.base),
        value_text(metric, row.new),
        change(row.ratio),
        interval(row.ratio),
        says,
    )


def phase_cells(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    for row in comparison.phases:
        yield (
            row.phase,
            f"{row.base_ms:,.3g}",
            f"{row.base_share * 100:.1f} %",
            f"{row.new_ms:,.3g}",
            f"{row.new_share * 100:.1f} %",
            change(row.ratio),
            interval(row.ratio),
        )


def value_text(metric: Metric, value: float | None) -> str:
    if value is None:
        return ""
    if metric.unit == "bytes":
        return bytes_text(value)
    return duration(value) if metric.unit == "ms" else f"{value:.4g} {metric.unit}"


def change(ratio: Ratio | None) -> str:
    return "" if ratio is None else percent_change(ratio.middle)


def interval(ratio: Ratio | None) -> str:
    """From the least to the most that it may be; "": too few runs."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return f"{percent_change(ratio.low)} … {percent_change(ratio.high)}{_BY.get(ratio.by, '')}"
