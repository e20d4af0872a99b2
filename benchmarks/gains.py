"""Does `stepscope tune` gain what an expert would have gained by hand, and nothing where there is
nothing to gain?

    python benchmarks/gains.py [--only 'net_*'] [--out gains.jsonl | --resume gains.jsonl]
    python benchmarks/gains.py --twins      # only the twins: same losses, and how much faster
    python benchmarks/gains.py --only none --null 40    # only scripts compared with themselves

Each script is tuned without being touched. Then the original, its hand-fixed twin and the original
with what tuning kept take turns; what counts is the wall clock of the loop that the script itself
takes. Some two hours with the default settings.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gains_programs as programs
from gains_cases import HEALTHY, PAIRS, Kind, Pair, Script
from gains_counts import ORIGINAL, TUNED, TWIN, loss_error, rounds_for
from gains_jobs import Job, work
from gains_records import Records
from gains_tables import result_of, table_of
from harness import progress

SCRIPT, MEMORY, HEALTHY_SCRIPT, NULL, TWINS = "script", "memory", "healthy", "null", "twin"
MEMORY_WANTED = "55%"  # of the peak; what all blocks checkpointed by hand takes is below that
A_RUN_S = 8.0  # a guess, before one was made


def main(arguments: Sequence[str] | None = None) -> None:
    options = options_of(arguments)
    records = Records(options.resume or options.out)
    work(jobs_of(options), records, progress)
    print(table_of(records))
    print(result_of(records).line())


def jobs_of(options: argparse.Namespace) -> list[Job]:
    pairs = [pair for pair in PAIRS if fnmatch.fnmatch(pair.name, options.only)]
    if options.twins:
        return [_twin_job(pair, options) for pair in pairs]
    healthy = [one for one in HEALTHY if fnmatch.fnmatch(one.name, options.only)]
    jobs = [_pair_job(pair, options) for pair in pairs]
    if not options.skip_healthy:
        jobs += [_healthy_job(script, options.healthy_budget) for script in healthy]
    # The same scripts over and over, whatever --only says: no fault may be in the way.
    scripts = itertools.islice(itertools.cycle(HEALTHY), options.null)
    jobs += [_null_job(k, script, options.healthy_budget) for k, script in enumerate(scripts)]
    return jobs


def measure_gain(pair: Pair, budget_s: float, rounds: int, folder: Path) -> dict[str, Any]:
    options = ("--allow", ",".join(pair.allow)) if pair.allow else ()
    tuned = programs.tune(pair.original, budget_s, folder, options)
    arms = _arms(pair)
    if tuned.config is not None:
        arms[TUNED] = partial(programs.wall_s, pair.original, tuned.config)
    return {
        "kind": pair.kind,
        "walls_s": in_turns(arms, rounds),
        "predictions": tuned.predictions,
        **tuned.record(),
    }


def measure_saving(pair: Pair, budget_s: float, folder: Path) -> dict[str, Any]:
    """One run an arm: the bytes of tensors do not scatter."""
    tuned = programs.tune(pair.original, budget_s, folder, ("--memory", MEMORY_WANTED))
    peaks = {ORIGINAL: programs.peak(pair.original), TWIN: programs.peak(pair.twin)}
    if tuned.config is not None:
        peaks[TUNED] = programs.peak(pair.original, tuned.config)
    return {
        "peak_bytes": {arm: one.peak_bytes for arm, one in peaks.items()},
        "walls_s": {arm: one.wall_s for arm, one in peaks.items()},
        **tuned.record(),
    }


def check_twin(pair: Pair, rounds: int, _: Path) -> dict[str, Any]:
    """Failed: the twin does not train what the original trains."""
    error = loss_error(programs.losses(pair.original), programs.losses(pair.twin))
    if error > pair.tolerance:
        raise programs.Failed(f"losses differ by {error:.2g}, more than {pair.tolerance:g}")
    return {
        "kind": pair.kind,
        "walls_s": in_turns(_arms(pair), rounds),
        "loss_error": error,
    }


def in_turns(arms: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each arm in each round, there and back: A B C, C B A."""
    taken: dict[str, list[float]] = {arm: [] for arm in arms}
    number, wanted = 0, rounds
    while number < wanted:
        for arm in arms if number % 2 == 0 else reversed(arms):
            taken[arm].append(arms[arm]())
        wanted = rounds_for(taken[ORIGINAL][0], rounds)
        number += 1
    return taken


def _arms(pair: Pair) -> dict[str, Callable[[], float]]:
    return {
        ORIGINAL: partial(programs.wall_s, pair.original),
        TWIN: partial(programs.wall_s, pair.twin),
    }


def _pair_job(pair: Pair, options: argparse.Namespace) -> Job:
    if pair.kind is Kind.MEMORY:
        do = partial(measure_saving, pair, options.budget)
        return Job(MEMORY, pair.name, options.budget + 3 * A_RUN_S, do)
    guess_s = options.budget + 3 * options.rounds * A_RUN_S
    return Job(
        SCRIPT, pair.name, guess_s, partial(measure_gain, pair, options.budget, options.rounds)
    )


def _twin_job(pair: Pair, options: argparse.Namespace) -> Job:
    guess_s = 2 * (1 + options.rounds) * A_RUN_S
    return Job(TWINS, pair.name, guess_s, partial(check_twin, pair, options.rounds))


def _healthy_job(script: Script, budget_s: float) -> Job:
    def do(folder: Path) -> dict[str, Any]:
        return programs.tune(script, budget_s, folder).record()

    return Job(HEALTHY_SCRIPT, script.name, budget_s, do)


def _null_job(number: int, script: Script, budget_s: float) -> Job:
    def do(folder: Path) -> dict[str, Any]:
        return {"claims": programs.null_claims(script, budget_s, folder)}

    return Job(NULL, f"{script.name} {number}", budget_s, do)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="scripts with such a name")
    parser.add_argument("--rounds", type=int, default=3, help="at least; short scripts get more")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds of tuning a script")
    parser.add_argument("--skip-healthy", action="store_true")
    parser.add_argument("--healthy-budget", type=float, default=75.0, metavar="S")
    parser.add_argument("--null", type=int, default=0, metavar="N", help="A/A comparisons")
    parser.add_argument("--twins", action="store_true", help="check the twins, tune nothing")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--out", type=_new, metavar="FILE", help="a line for each script")
    files.add_argument("--resume", type=Path, metavar="FILE", help="go on with such a file")
    return parser.parse_args(arguments)


def _new(text: str) -> Path:
    path = Path(text)
    if path.exists():
        raise argparse.ArgumentTypeError(f"{text} is there already: go on with --resume {text}")
    return path


if __name__ == "__main__":
    main()
