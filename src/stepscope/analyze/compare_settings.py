"""What makes two groups of runs hard to compare, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.model.comparison import RunFigures
from stepscope.stats.quantiles import median

__all__ = ["warnings_about"]

_STEPS_APART = 1.1  # runs of other lengths weigh their warm-up otherwise
_NAMED = 3


def warnings_about(base: Sequence[RunFigures], new: Sequence[RunFigures]) -> list[str]:
    """One sentence each; none: nothing speaks against comparing them."""
    return [*_differences(base, new), *_lengths(base, new), *_odd_runs([*base, *new])]


def _differences(base: Sequence[RunFigures], new: Sequence[RunFigures]) -> Iterator[str]:
    for key in dict.fromkeys(key for run in (*base, *new) for key in run.about):
        before, after = _values(base, key), _values(new, key)
        if before and after and before != after:
            yield (
                f"The {key} differs: {_listed(before)} in base, {_listed(after)} in new."
                " What is measured may come from that."
            )
        elif len(before) > 1:
            yield f"The {key} differs within each group: {_listed(before)}."


def _values(runs: Sequence[RunFigures], key: str) -> list[str]:
    return sorted({run.about[key] for run in runs if key in run.about})


def _lengths(base: Sequence[RunFigures], new: Sequence[RunFigures]) -> Iterator[str]:
    before, after = (median(run.steps for run in runs) or 0.0 for runs in (base, new))
    if before and after and max(before, after) > _STEPS_APART * min(before, after):
        yield (
            f"Runs differ in length: {before:,.0f} steps in base, {after:,.0f} in new. Warm-up"
            " weighs more in short ones."
        )


def _odd_runs(runs: Sequence[RunFigures]) -> Iterator[str]:
    remarks = dict.fromkeys(remark for run in runs for remark in run.remarks)
    for remark in remarks:
        names = [run.name for run in runs if remark in run.remarks]
        yield f"{_listed(names)}: {remark}."


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:_NAMED])
    return shown if len(texts) <= _NAMED else f"{shown} and {len(texts) - _NAMED} more"
