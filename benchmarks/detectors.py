"""How well are slow-downs and full memory foreseen? On series whose changes are known.

python benchmarks/detectors.py                # some minutes; --quick for a first look

Step times: synthetic ones of nine noise models at six strengths, those of real runs that are made
here, and those of a real job on GPUs. Each is judged as it is (every alarm is false) and with 5 %
more from a known step on (to be found within 20 steps), by stepscope's detector and by others.
Memory: leaks whose end is known, forecast at half of their life, and what only looks like a leak.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from detector_memory import MemorySeries, leaks, least_squares_s, no_leaks, recorded_memory
from detector_recordings import recorded_here, recorded_on_gpus
from detector_rivals import RIVALS, alarms
from detector_series import StepSeries, step_series
from harness import Result, Target, at_least, at_most, progress, table
from stepscope.stats.forecast import REACH, LimitForecast
from stepscope.stats.quantiles import quantile
from stepscope.stats.slowdown import SlowdownDetector

OURS = "stepscope"
SLOWER = 0.05
WITHIN = 20  # steps
SIZES = (0.03, 0.05, 0.1, 0.2, 0.5)
CLASSES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, math.inf)
NOISE_WITHOUT_RECORDINGS = 0.025
WITNESS = 15  # steps on either side of an alarm; and how much slower the other work was then
WITNESS_SLOWER = 1.025


@dataclass(frozen=True)
class Judged:
    """What a detector made of a series: alarms where nothing was planted, and whether it found what
    was; machine: alarms at which the witness had become slower too."""

    series: StepSeries
    noise: float
    false: int
    machine: int
    found: bool


def judge(name: str, series: StepSeries, at: int) -> Judged:
    raised = alarms(RIVALS[name], series.values)
    machine = sum(_is_machine(series, step) for step in raised)
    found = _finds(name, series, at, SLOWER)
    return Judged(series, series.noise, len(raised) - machine, machine, found)


def _finds(name: str, series: StepSeries, at: int, by: float) -> bool:
    planted = series.slowed(at, by).values[: at + WITHIN]
    return any(step >= at for step in alarms(RIVALS[name], planted))


def _is_machine(series: StepSeries, step: int) -> bool:
    if series.witness is None:
        return False
    before = median(series.witness[: max(1, step - WITNESS)])
    return median(series.witness[step - WITNESS : step + WITNESS]) > WITNESS_SLOWER * before


def place(series: StepSeries, number: int) -> int:
    """Where the slow-down is planted: after some two thirds of short ones, anywhere in others."""
    count = len(series.values)
    return random.Random(number).randrange(min(150, 2 * count // 3), count - WITHIN)


def per_thousand(judged: Iterable[Judged]) -> float | None:
    judged = list(judged)
    steps = sum(len(one.series.values) for one in judged)
    return 1000 * sum(one.false for one in judged) / steps if steps else None


def found_share(judged: Iterable[Judged]) -> float | None:
    found = [one.found for one in judged]
    return sum(found) / len(found) if found else None


def real_noise(series: Sequence[StepSeries]) -> float:
    """The strongest noise among recordings on GPUs that are long enough to tell."""
    long = [one.noise for one in series if one.is_recorded and "drawn again" in one.kind]
    return max(long, default=NOISE_WITHOUT_RECORDINGS)


def step_figures(series: Sequence[StepSeries]) -> dict[str, Any]:
    limit = real_noise(series)
    figures: dict[str, Any] = {"series": len(series), "real_noise": limit, "detectors": {}}
    for name in RIVALS:
        missing = unavailable(name)
        if missing:
            figures["detectors"][name] = {"unavailable": missing}
            continue
        progress(f"{name}: {len(series)} series")
        judged = [judge(name, one, place(one, number)) for number, one in enumerate(series)]
        figures["detectors"][name] = _summary(judged, limit)
        if name == OURS:
            figures |= _closer(judged)
    figures["found_by_size"] = {f"+{by:.0%}": _share_found(series, by, limit) for by in SIZES}
    return figures


def unavailable(name: str) -> str:
    """Why a detector cannot be compared here; "": it can."""
    try:
        RIVALS[name]()
    except ImportError as error:
        return f"{error} (pip install 'stepscope[bench]')"
    return ""


def _share_found(series: Sequence[StepSeries], by: float, limit: float) -> float:
    quiet = [(n, one) for n, one in enumerate(series) if one.noise <= limit]
    return sum(_finds(OURS, one, place(one, n), by) for n, one in quiet) / len(quiet)


def _summary(judged: Sequence[Judged], limit: float) -> dict[str, Any]:
    real = [one for one in judged if one.noise <= limit]
    return {
        "false_per_1000": per_thousand(judged),
        "false_per_1000_real_noise": per_thousand(real),
        "found": found_share(judged),
        "found_real_noise": found_share(real),
        "series_real_noise": len(real),
        "machine_alarms": sum(one.machine for one in judged),
    }


def _closer(judged: Sequence[Judged]) -> dict[str, Any]:
    """By how strong the noise is, and by what kind of noise it is."""
    return {
        "by_noise": {
            f"{low:.0%} to {high:.0%}" if high < math.inf else f"over {low:.0%}": _row(
                one for one in judged if low <= one.noise < high
            )
            for low, high in pairwise(CLASSES)
        },
        "by_kind": {
            kind: _row(one for one in judged if _kind(one) == kind)
            for kind in dict.fromkeys(map(_kind, judged))
        },
    }


def _kind(judged: Judged) -> str:
    return judged.series.kind.split(",")[0]


def _row(judged: Iterable[Judged]) -> dict[str, Any]:
    judged = list(judged)
    return {
        "series": len(judged),
        "false_per_1000": per_thousand(judged),
        "found": found_share(judged),
        "noise": median(one.noise for one in judged) if judged else None,
    }


def memory_figures(leaking: Sequence[MemorySeries], others: Sequence[MemorySeries]) -> Any:
    progress(f"memory: {len(leaking)} leaks, {len(others)} series that are none")
    ours = [_error_at_half(series) for series in leaking]
    line = [_line_error_at_half(series) for series in leaking]
    false = [(series.kind, *_false_alarms(series)) for series in others]
    return {
        "leaks": len(leaking),
        "no_leaks": len(others),
        "error": _errors([error for error, _ in ours]),
        "interval_holds": sum(holds for _, holds in ours) / len(ours),
        "false": sum(mine for _, mine, _ in false),
        "false_kinds": sorted({kind for kind, mine, _ in false if mine}),
        "least_squares": {"error": _errors(line), "false": sum(line for _, _, line in false)},
    }


def _errors(errors: Sequence[float]) -> dict[str, float | None]:
    """A leak for which nothing was said counts as infinitely wrong; worst: of the others."""
    told = [error for error in errors if error < math.inf]
    return {
        "median": quantile(told, 0.5),
        "within_15_percent": sum(error <= 0.15 for error in errors) / len(errors),
        "worst": max(told, default=None),
        "not_told": float(len(errors) - len(told)),
    }


def _error_at_half(series: MemorySeries) -> tuple[float, bool]:
    watched = LimitForecast()
    for time_s, value in _until_half(series):
        watched.update(time_s, value)
    told = watched.get(series.limit)
    if told is None:
        return math.inf, False
    left_s = _left_s(series)
    return abs(told.seconds - left_s) / left_s, told.low_s <= left_s <= told.high_s


def _line_error_at_half(series: MemorySeries) -> float:
    times_s, values = zip(*_until_half(series), strict=True)
    told_s, left_s = least_squares_s(list(times_s), list(values), series.limit), _left_s(series)
    return math.inf if told_s is None else abs(told_s - left_s) / left_s


def _until_half(series: MemorySeries) -> list[tuple[float, float]]:
    half = series.half_of_life + 1
    return list(zip(series.times_s[:half], series.values[:half], strict=True))


def _left_s(series: MemorySeries) -> float:
    return series.times_s[series.ends_at or 0] - series.times_s[series.half_of_life]


def _false_alarms(series: MemorySeries) -> tuple[bool, bool]:
    """Whether ours, and a line through all of it, ever say that it is going to be full, asked a
    hundred times; the line within the same reach."""
    watched, every = LimitForecast(), max(1, len(series.values) // 100)
    ours = line = False
    for at, (time_s, value) in enumerate(zip(series.times_s, series.values, strict=True)):
        watched.update(time_s, value)
        if at % every or at < 24:
            continue
        ours = ours or watched.get(series.limit) is not None
        told_s = least_squares_s(series.times_s[: at + 1], series.values[: at + 1], series.limit)
        line = line or (told_s is not None and told_s < REACH * (time_s - series.times_s[0]))
    return ours, line


def cost_us(updates: int = 100_000) -> float:
    """CPU time of an update."""
    rng = random.Random(0)
    values = [math.exp(rng.gauss(0.0, 0.02)) for _ in range(updates)]
    detector = SlowdownDetector()
    began = time.process_time()
    for value in values:
        detector.update(value)
    return (time.process_time() - began) / updates * 1e6


def show(steps: Any, memory: Any) -> None:
    def share(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    rows = [
        (name, *(share(found.get(key)) for key in ("false_per_1000", "found", "found_real_noise")))
        for name, found in steps["detectors"].items()
    ]
    header = ("detector", "false / 1,000", "found in 20", f"noise ≤ {steps['real_noise']:.1%}")
    print(table(header, rows), end="\n\n")
    for title in ("by_noise", "by_kind"):
        rows = [
            (
                name,
                str(row["series"]),
                *(share(row[k]) for k in ("noise", "false_per_1000", "found")),
            )
            for name, row in steps[title].items()
        ]
        print(table((title, "series", "noise", "false / 1,000", "found in 20"), rows), end="\n\n")
    for name, errors in (("ours", memory), ("least squares", memory["least_squares"])):
        print(f"time to full memory, {name}: {errors['error']}, false: {errors['false']}")


def targets(steps: Any, memory: Any) -> list[Target]:
    ours = steps["detectors"][OURS]
    return [
        at_least("series", steps["series"] + memory["leaks"] + memory["no_leaks"], 200),
        at_most("false alarms per 1,000 steps, all series", ours["false_per_1000"], 0.1),
        at_most(
            "false alarms per 1,000 steps, noise of real runs",
            ours["false_per_1000_real_noise"],
            0.1,
        ),
        at_least("+5 % found in 20 steps, noise of real runs", ours["found_real_noise"], 0.95),
        at_most(
            "time to full memory at half of life, median error", memory["error"]["median"], 0.15
        ),
        at_least("time to full memory within 15 %", memory["error"]["within_15_percent"], 0.95),
        at_most("false alarms on plateaus and sawtooths", memory["false"], 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--quick", action="store_true", help="a sixth of the synthetic series")
    args = parser.parse_args()
    progress("recording")
    here = recorded_here(steps=300 if args.quick else 800, rounds=1 if args.quick else 2)
    series = step_series(args.seed)[:: 6 if args.quick else 1]
    series += recorded_on_gpus(args.seed) + here
    recorded = recorded_memory(steps=400)
    steps = step_figures(series)
    memory = memory_figures(
        leaks(args.seed) + [one for one in recorded if one.ends_at is not None],
        no_leaks(args.seed) + [one for one in recorded if one.ends_at is None],
    )
    show(steps, memory)
    figures = {"steps": steps, "memory": memory, "update_us": cost_us()}
    print(Result("detectors", figures, targets(steps, memory)).line())


if __name__ == "__main__":
    main()
