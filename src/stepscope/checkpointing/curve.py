"""Peak against time: what each amount of memory would cost."""

from __future__ import annotations

from typing import Final

from stepscope.checkpointing.solve import Choice, Problem
from stepscope.model.checkpoint_plan import PlanPoint

__all__ = ["trade_off"]

POINTS: Final = 12


def trade_off(problem: Problem, smallest: Choice, step_ms: float) -> tuple[PlanPoint, ...]:
    """From nothing recomputed down to the smallest peak. step_ms: of a step without recomputing."""
    nothing = problem.evaluate(())
    width = (nothing.peak_bytes - smallest.peak_bytes) / POINTS
    choices = [nothing, smallest]
    for at in range(1, POINTS):
        found = problem.least_time(round(nothing.peak_bytes - at * width))
        if found is not None:
            choices.append(found)
    points: list[PlanPoint] = []
    for one in sorted(set(choices), key=lambda one: (-one.peak_bytes, one.recompute_ms)):
        point = PlanPoint(one.peak_bytes, step_ms + one.recompute_ms, len(one.chosen))
        while points and points[-1].step_ms >= point.step_ms:
            points.pop()  # a smaller peak for less time: nobody wants the other
        points.append(point)
    return tuple(points)
