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

from detector_foresight import memory_figures
from detector_memory import leaks, no_leaks, recorded_memory
from detector_memory_hard import HARD_LEAKS, HARD_NO_LEAKS
from detector_recordings import recorded_here, recorded_on_gpus
from detector_rivals import RIVALS, alarms
from detector_series import StepSeries, step_series
from harness import Result, Target, at_least, at_most, progress, rounded, table
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


def cost_us(updates: int = 100_000) -> float:
    """CPU time of an update."""
    rng = random.Random(0)
    values = [math.exp(rng.gauss(0.0, 0.02)) for _ in range(updates)]
    detector = SlowdownDetector()
    began = time.process_time()
    for value in values:
        detector.update(value)
    return (time.process_time() - began) / updates * 1e6


def show(steps: Any, memory: Any, hard: Any) -> None:
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
    for title, found in (("memory", memory), ("memory that is hard to judge", hard)):
        for name, one in (("ours", found), ("least squares", found["least_squares"])):
            false = f"{one['false']} of {found['no_leaks']}"
            print(f"{title}, {name}: {rounded(one['error'])}, false alarms: {false}")


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
    parser.add_argument("--seed", type=int, default=21)
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
    hard = memory_figures(leaks(args.seed, HARD_LEAKS), no_leaks(args.seed, HARD_NO_LEAKS))
    show(steps, memory, hard)
    figures = {"steps": steps, "memory": memory, "hard_memory": hard, "update_us": cost_us()}
    print(Result("detectors", figures, targets(steps, memory)).line())


if __name__ == "__main__":
    main()
