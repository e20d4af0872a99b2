"""The trade-off of a checkpoint plan as a drawing: peak memory to the right, step time upwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.model.checkpoint_plan import Outcome, PlanReport
from stepscope.report.charts import Area, Chart, point_path, range_ticks
from stepscope.report.units import bytes_text, duration

__all__ = ["PlanChart", "PlanMark", "plan_chart"]

_MARGIN = 0.08  # of the range, on each side: marks and their words must not be cut off


class PlanMark(NamedTuple):
    """A step to look at. Places in parts of width and height, from the top left."""

    left: float
    top: float
    kind: str  # "baseline", "present", "predicted" or "measured"
    label: str
    title: str


class PlanChart(NamedTuple):
    chart: Chart
    points: tuple[PlanMark, ...]  # of the curve
    marks: tuple[PlanMark, ...]
    budget_at: float | None  # along the width
    budget: str
    label: str  # all of it in words


class _Range(NamedTuple):
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> _Range:
        low, high = min(values), max(values)
        room = _MARGIN * ((high - low) or abs(high) or 1.0)
        return cls(max(0.0, low - room), high + room)

    def part(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


def plan_chart(report: PlanReport) -> PlanChart:
    """The curve of all good plans, the budget, and the steps that were measured or foretold."""
    budget = report.plan.budget_bytes
    across, up = _ranges(report)
    points = tuple(
        _mark(across, up, "point", f"{one.segments:,} recomputed", one.peak_bytes, one.step_ms)
        for one in report.curve
    )
    marks = tuple(
        _mark(across, up, kind, words, step.peak_bytes, step.step_ms)
        for kind, words, step in _steps(report)
    )
    path = point_path((point.left, point.top) for point in points)
    chart = Chart(
        (Area("the least step time for each peak", path),) if points else (),
        tuple(range_ticks(across.low, across.high, "B")),
        tuple(tick._replace(at=1 - tick.at) for tick in range_ticks(up.low, up.high, "ms")),
    )
    return PlanChart(
        chart,
        points,
        marks,
        None if budget is None else across.part(budget),
        "" if budget is None else f"budget {bytes_text(budget)}",
        "Step time against peak memory. " + "; ".join(mark.title for mark in marks) + ".",
    )


def _ranges(report: PlanReport) -> tuple[_Range, _Range]:
    """Of bytes and of milliseconds, with all that is drawn in them."""
    budget = report.plan.budget_bytes
    drawn = [(float(one.peak_bytes), one.step_ms) for one in report.curve]
    drawn += [(float(step.peak_bytes), step.step_ms) for _, _, step in _steps(report)]
    peaks = [peak for peak, _ in drawn] + ([] if budget is None else [float(budget)])
    return _Range.of(peaks), _Range.of([step_ms for _, step_ms in drawn])


def _mark(
    across: _Range, up: _Range, kind: str, words: str, peak_bytes: float, step_ms: float
) -> PlanMark:
    title = f"{words}: peak {bytes_text(peak_bytes)}, step {duration(step_ms)}"
    return PlanMark(across.part(peak_bytes), 1 - up.part(step_ms), kind, words, title)


def _steps(report: PlanReport) -> Iterator[tuple[str, str, Outcome]]:
    yield "baseline", "nothing recomputed", report.baseline
    if report.present is not None:
        yield "present", "as the program is", report.present
    yield "predicted", "the plan, predicted", report.predicted
    yield "measured", "the plan, measured", report.measured
