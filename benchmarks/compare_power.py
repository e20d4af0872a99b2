"""Does `stepscope compare` find a slow-down of 5 %, and keep silent where there is none?

A pool of real runs of one small program is made, 20 equal blocks a step and 21 in turns. From it
come 40 pairs of groups with five runs each that are alike (A/A), and 40 in which the second group
has the extra block (A/B). The ten runs of a pair are neighbours in time, as runs in turns would be;
where in the pool, and which of them stand in which group, differs from pair to pair (chance with a
fixed seed). Within a pair no run stands twice. Pairs share runs, so the 40 are not independent:
more runs make them more so.

    python benchmarks/compare_power.py --runs 60
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness import Result, at_least, at_most, compile_package, progress
from processes import script
from stepscope.model.comparison import Comparison
from stepscope.session.compare import compare_runs, read_figures

PROGRAM = Path(__file__).parent / "programs" / "equal_blocks.py"
PAIRS, GROUP = 40, 5
KINDS = BASE, SLOW = 20, 21  # blocks
TIMEOUT_S = 120.0
SEED = 7


class Pool(NamedTuple):
    """Runs in the order of time; the same place in both: neighbours."""

    base: list[Path]
    slow: list[Path]


def make_pool(folder: Path, runs: int, steps: int) -> Pool:
    """runs: of both kinds together."""
    pool = Pool([], [])
    began = time.monotonic()
    for number in range(runs // 2):
        order = (BASE, SLOW) if number % 2 else (SLOW, BASE)
        for blocks in order:
            path = folder / f"{blocks}-{number:03d}"
            _record(path, blocks, steps)
            (pool.base if blocks == BASE else pool.slow).append(path)
        done = number + 1
        left_s = (time.monotonic() - began) / done * (runs // 2 - done)
        progress(f"{2 * done} of {runs} runs, {left_s:.0f} s left")
    return pool


def _record(path: Path, blocks: int, steps: int) -> None:
    command = [script("stepscope"), "run", "-q", "-o", str(path), str(PROGRAM)]
    command += ["--blocks", str(blocks), "--steps", str(steps)]
    subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)


def same_pairs(pool: Pool, rng: random.Random) -> list[tuple[list[Path], list[Path]]]:
    """Ten neighbours of one kind: of each two, chance sends one to either group."""
    found = []
    for place in range(PAIRS):
        runs = pool.slow if place % 2 else pool.base
        window = _window(runs, place)
        couples = [rng.sample(window[at : at + 2], 2) for at in range(0, len(window), 2)]
        found.append(([one for one, _ in couples], [other for _, other in couples]))
    return found


def slow_pairs(pool: Pool, rng: random.Random) -> list[tuple[list[Path], list[Path]]]:
    """Five of ten neighbours, by chance, each with the slow run beside it."""
    found = []
    for place in range(PAIRS):
        chosen = sorted(rng.sample(range(2 * GROUP), GROUP))
        base, slow = (_window(runs, place) for runs in pool)
        found.append(([base[one] for one in chosen], [slow[one] for one in chosen]))
    return found


def _window(runs: Sequence[Path], place: int) -> list[Path]:
    """The windows are spread over the pool evenly."""
    start = round(place * (len(runs) - 2 * GROUP) / (PAIRS - 1))
    return list(runs[start : start + 2 * GROUP])


def judged(pairs: Sequence[tuple[list[Path], list[Path]]]) -> list[Comparison]:
    return [compare_runs(base, new) for base, new in pairs]


def spreads(pool: Pool) -> dict[str, Any]:
    """How far runs of the same program lie apart: standard deviations of each figure."""
    figures = [read_figures(run) for run in pool.base]
    found: dict[str, Any] = {}
    for key in ("fast", "step", "loop"):
        values = [run.figures[key] for run in figures]
        found[key] = statistics.stdev(values) / statistics.mean(values)
    references = [run.reference_us for run in figures if run.reference_us is not None]
    if len(references) > 1:
        found["reference"] = statistics.stdev(references) / statistics.mean(references)
    return found


def outcomes(found: Sequence[Comparison]) -> dict[str, int]:
    said = [str(one.outcome) for one in found]
    return {one: said.count(one) for one in sorted(set(said))}


def how(found: Sequence[Comparison]) -> dict[str, int]:
    """What the first figure was judged by."""
    by = [one.rows[0].ratio.by for one in found if one.rows and one.rows[0].ratio is not None]
    return {one: by.count(one) for one in sorted(set(by))}


def first_ratios(found: Sequence[Comparison]) -> float:
    ratios = [one.rows[0].ratio.middle for one in found if one.rows and one.rows[0].ratio]
    return statistics.median(ratios)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=60, help="real runs, of both kinds together")
    parser.add_argument("--steps", type=int, default=700, help="of each run")
    parser.add_argument("--keep", type=Path, help="put the runs there, and use what is there")
    arguments = parser.parse_args()
    if arguments.runs < 4 * GROUP:
        parser.error(f"--runs {arguments.runs}: at least {4 * GROUP} are needed")
    compile_package()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        pool = _kept(folder) or make_pool(folder, arguments.runs, arguments.steps)
        progress("comparing")
        rng = random.Random(SEED)
        same, slow = judged(same_pairs(pool, rng)), judged(slow_pairs(pool, rng))
        figures = {
            "runs": len(pool.base) + len(pool.slow),
            "runs_in_a_group": GROUP,
            "pairs": PAIRS,
            "drawn": "from ten neighbours in time; pairs share runs, groups of a pair do not",
            "same": outcomes(same),
            "slow": outcomes(slow),
            "slow_judged_by": how(slow),
            "slow_ratio": first_ratios(slow),
            "spread": spreads(pool),
        }
    alarms = outcomes(same).get("regression", 0)
    found = outcomes(slow).get("regression", 0)
    targets = (
        at_most(f"false alarms in {PAIRS} pairs that are alike", alarms, 2),
        at_least(f"slow-downs of 5 % found in {PAIRS} pairs", found, 36),
    )
    print(Result("compare_power", figures, targets).line())
    return 0


def _kept(folder: Path) -> Pool | None:
    """Runs of an earlier call that ended, with the neighbour of each; None: too few of them."""
    ended = [{path.parent.name[3:] for path in folder.glob(f"{k}-*/summary.json")} for k in KINDS]
    numbers = sorted(ended[0] & ended[1])
    if len(numbers) < 2 * GROUP:
        return None
    return Pool(*([folder / f"{kind}-{number}" for number in numbers] for kind in KINDS))


if __name__ == "__main__":
    sys.exit(main())
