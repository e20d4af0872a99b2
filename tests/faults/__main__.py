"""
Run the scripts with known faults under stepscope, and score what it says.

    python -m tests.faults                     all of them, each at the strength of the manifest
    python -m tests.faults --quick             the subset of the test suite
    python -m tests.faults --only 'io_*'       by name or kind
    python -m tests.faults --strength 0.25,1   each at these strengths
    python -m tests.faults --truth             no stepscope: is the truth of the scripts true?
    python -m tests.faults --generate 20 --seed 7   random programs, judged by ablation
    python -m tests.faults --accuracy FILE…    write docs/accuracy.md from results

The last line is one JSON object; see docs/howto/faults.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.faults import accuracy, tables
from tests.faults.generate.command import generate
from tests.faults.manifest import CASES, Case
from tests.faults.running import CorpusError, observe
from tests.faults.scoring import by_kind, by_share, by_strength, confusions, figures, score
from tests.faults.verifying import verify

Failures = list[tuple[str, str]]
Result = TypeVar("Result")


def main() -> int:
    args = _arguments()
    if args.accuracy:
        accuracy.PAGE.write_text(
            accuracy.page([row for path in args.accuracy for row in accuracy.rows_of(path)])
        )
        return 0
    if args.generate is not None:
        numbers = list(range(args.generate))
        if args.only:
            numbers = [int(number) for number in args.only.split(",")]
        return generate(
            numbers, args.seed, args.keep, crowded=args.crowded, jobs=args.jobs, quiet=args.json
        )
    work = [
        (case, strength)
        for case in _chosen(args.only, quick=args.quick)
        for strength in (args.strength if args.strength and case.faults else [case.strength])
    ]
    if args.truth:
        checked, failures = _run(verify, work, args.jobs)
        tables.print_truth(checked, failures)
        return int(bool(failures) or not all(one.agrees for one in checked))
    seen, failures = _run(observe, work, args.jobs)
    scores = [score(one) for one in seen]
    if not args.json:
        tables.print_scores(scores, failures)
    result = tables.result(figures(scores), failures)
    result["figures"] |= {
        "by_kind": by_kind(scores),
        "by_strength": by_strength(scores),
        "by_share": by_share(scores),
        "confusions": [[*pair, count] for pair, count in confusions(scores).most_common()],
        "scripts": [tables.row(one) for one in scores],
    }
    print(json.dumps(result))
    return int(bool(failures))


def _run(
    job: Callable[[Case, float], Result], work: list[tuple[Case, float]], jobs: int
) -> tuple[list[Result], Failures]:
    results: dict[int, Result] = {}
    failures: Failures = []
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[at]}"),
    )
    with Progress(*columns, console=console) as bar, ThreadPoolExecutor(jobs) as pool:
        task = bar.add_task("", total=len(work), at="")
        futures = {pool.submit(job, *item): place for place, item in enumerate(work)}
        for future in as_completed(futures):
            place = futures[future]
            case, strength = work[place]
            try:
                results[place] = future.result()
            except CorpusError as error:
                failures.append((case.script, str(error)))
            bar.update(task, advance=1, at=f"{case.script} at {strength:g}")
    return [results[place] for place in sorted(results)], failures


def _chosen(pattern: str | None, *, quick: bool) -> list[Case]:
    cases = [case for case in CASES if not case.needs_bfloat16 or _has_bfloat16()]
    if quick:
        cases = [case for case in cases if case.quick]
    if pattern:
        cases = [
            case
            for case in cases
            if any(fnmatch.fnmatch(name, f"*{pattern}*") for name in (case.script, *case.kinds))
        ]
    if not cases:
        sys.exit(f"no script matches {pattern!r}")
    return cases


def _has_bfloat16() -> bool:
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() else ""
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="the subset of the test suite")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help="scripts or kinds that match; numbers of generated programs",
    )
    parser.add_argument("--strength", type=_strengths, metavar="S[,S…]", help="0 to 1")
    parser.add_argument("--truth", action="store_true", help="check the scripts, not stepscope")
    parser.add_argument("--json", action="store_true", help="no tables, only the last line")
    parser.add_argument("--jobs", type=int, default=1, help="scripts at once (default: 1)")
    parser.add_argument("--generate", type=int, metavar="N", help="N random programs")
    parser.add_argument("--seed", type=int, default=1, help="of the random programs (default: 1)")
    parser.add_argument("--crowded", action="store_true", help="profile beside two busy processes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="results; a second call goes on")
    parser.add_argument("--accuracy", type=Path, nargs="+", metavar="FILE", help="results to show")
    return parser.parse_args()


def _strengths(text: str) -> list[float]:
    strengths = [float(part) for part in text.split(",")]
    if not all(0 < strength <= 1 for strength in strengths):
        raise argparse.ArgumentTypeError("strengths are above 0 and at most 1")
    return strengths


if __name__ == "__main__":
    sys.exit(main())
