"""Two groups of runs → what changed, and whether that is proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stepscope.analyze.compare_ratio import CONFIDENCE, Measured, judge, ratio_of, runs_needed
from stepscope.analyze.compare_settings import warnings_about
from stepscope.analyze.words import bytes_text, duration
from stepscope.model.comparison import (
    METRICS,
    Comparison,
    FigureRow,
    Judgement,
    Metric,
    Outcome,
    PhaseRow,
    Ratio,
    RunFigures,
    percent_change,
)
from stepscope.stats.means import typical

__all__ = ["compare"]

Group = Sequence[RunFigures]
# What is told when figures say different things: what has to be acted on first.
_WEIGHT = {
    Judgement.WORSE: Outcome.REGRESSION,
    Judgement.BETTER: Outcome.IMPROVEMENT,
    Judgement.UNCLEAR: Outcome.INCONCLUSIVE,
    Judgement.SAME: Outcome.NO_CHANGE,
}


def compare(base: Group, new: Group, fail_over: float = 0.05) -> Comparison:
    """fail_over: the change for the worse that is to be found; 0.05: 5 %."""
    rows = tuple(row for one in METRICS if (row := _row(one, base, new, fail_over)) is not None)
    judged = [row for row in rows if row.judgement is not None]
    said = next((each for each in _WEIGHT if any(r.judgement is each for r in judged)), None)
    runs = min(len(base), len(new))
    return Comparison(
        base=tuple(base),
        new=tuple(new),
        fail_over=fail_over,
        confidence=CONFIDENCE,
        outcome=Outcome.INCONCLUSIVE if said is None else _WEIGHT[said],
        reasons=tuple(_reasons(judged, said, runs, fail_over)),
        rows=rows,
        phases=tuple(_phases(base, new)),
        verdicts=(_verdict(base), _verdict(new)),
        warnings=tuple(warnings_about(base, new)),
    )


def _row(metric: Metric, base: Group, new: Group, fail_over: float) -> FigureRow | None:
    at_speed = metric.follows_speed and _same_work((*base, *new))
    before, after = (_measured(runs, metric.key, at_speed) for runs in (base, new))
    if not before or not after:
        return None
    ratio = ratio_of(before, after)
    return FigureRow(
        metric,
        typical(one.value for one in before),
        typical(one.value for one in after),
        ratio,
        judge(ratio, fail_over) if metric.decides else None,
    )


def _same_work(runs: Group) -> bool:
    """The work that tells the machine's speed is the same in one version of stepscope only."""
    return len({run.about.get("version of stepscope") for run in runs}) == 1


def _measured(runs: Group, key: str, at_speed: bool) -> list[Measured]:
    return [
        Measured(run.figures[key], run.started_unix, run.reference_us if at_speed else None)
        for run in runs
        if key in run.figures
    ]


def _phases(base: Group, new: Group) -> Iterator[PhaseRow]:
    before_ms, after_ms = _loop_ms(base), _loop_ms(new)
    if not before_ms or not after_ms:
        return
    for phase in dict.fromkeys(phase for run in (*base, *new) for phase in run.phases):
        before, after = ([_phase(run, phase) for run in runs if run.phases] for runs in (base, new))
        base_ms, new_ms = (sum(m.value for m in each) / len(each) for each in (before, after))
        if base_ms or new_ms:
            shares = base_ms / before_ms, new_ms / after_ms
            yield PhaseRow(phase, base_ms, new_ms, *shares, ratio_of(before, after))


def _phase(run: RunFigures, phase: str) -> Measured:
    return Measured(run.phases.get(phase, 0.0), run.started_unix)


def _loop_ms(runs: Group) -> float:
    sums = [sum(run.phases.values()) for run in runs if run.phases]
    return sum(sums) / len(sums) if sums else 0.0


def _verdict(runs: Group) -> str:
    """That of most runs, as the first of these says it."""
    kinds = Counter(run.kind for run in runs if run.kind)
    if not kinds:
        return ""
    ((kind, count),) = kinds.most_common(1)
    title = next(run.verdict for run in runs if run.kind == kind)
    return title if count == len(runs) else f"{title} ({count} of {len(runs)} runs)"


def _reasons(
    judged: Sequence[FigureRow], said: Judgement | None, runs: int, fail_over: float
) -> Iterator[str]:
    if said is None:
        yield "No figure was measured in both groups: there is nothing to compare."
        return
    rows = [row for row in judged if row.judgement is said]
    if said is not Judgement.UNCLEAR:
        yield from (_sentence(row) for row in rows)
    elif runs < 2:
        yield (
            "One run cannot tell a change from chance: give at least two runs of each, better five,"
            " recorded in turns."
        )
    else:
        yield from (_doubt(row, runs, fail_over) for row in rows)


def _sentence(row: FigureRow) -> str:
    """undisturbed step: 5.12 ms → 5.38 ms, +5.1 % (between +3.0 % and +7.2 %)."""
    values = f"{_value(row.metric, row.base)} → {_value(row.metric, row.new)}"
    return f"{row.metric.title}: {values}, {_change(row.ratio)}."


def _doubt(row: FigureRow, runs: int, fail_over: float) -> str:
    needed = runs_needed(row.ratio, runs, fail_over) if row.ratio is not None else None
    if needed is not None:
        advice = f"about {needed} runs of each would tell {fail_over * 100:.3g} %"
    else:
        advice = "use a quieter machine or longer runs"
    return f"{_sentence(row)} Runs of one group differ too much to tell: {advice}."


def _value(metric: Metric, value: float | None) -> str:
    if value is None:
        return "?"
    if metric.unit == "bytes":
        return bytes_text(value)
    if metric.unit == "ms" and value >= 1000:
        return duration(value * 1e6)
    return f"{value:.3g} {metric.unit}"  # as fine as a change of 5 % needs


def _change(ratio: Ratio | None) -> str:
    if ratio is None:
        return "unknown"
    if ratio.low is None or ratio.high is None:
        return percent_change(ratio.middle)
    within = f"between {percent_change(ratio.low)} and {percent_change(ratio.high)}"
    return f"{percent_change(ratio.middle)} ({within})"
