"""
Feed damaged inputs to everything that stepscope reads.

    python -m tests.fuzz                              20,000 inputs for each target
    python -m tests.fuzz summary frames --inputs 500  fewer, for some
    python -m tests.fuzz summary --first 17 --inputs 1 --seed 3   one of them again

The last line is one JSON object, as benchmarks have it.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.progress import Progress

from tests.fuzz.children import Outcome, feed_in_child
from tests.fuzz.harness import Tally
from tests.fuzz.targets import all_targets

DEFECTS = ("tracebacks", "hangs", "out_of_memory", "crashes")


def main() -> int:
    targets = all_targets()
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Feed damaged inputs."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(targets)}")
    parser.add_argument("--inputs", type=int, default=20_000, help="for each target (20000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (0)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if unknown := set(args.targets) - set(targets):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    names = args.targets or list(targets)
    console = Console(stderr=True)
    figures: dict[str, dict[str, float]] = {}
    with Progress(console=console) as progress:
        for name in names:
            bar = progress.add_task(name, total=args.inputs)
            outcome = Outcome(Tally(), 0.0, 0.0)
            for outcome in feed_in_child(name, args.seed, args.first, args.inputs):
                progress.update(bar, completed=outcome.tally.inputs)
            for example in outcome.tally.examples:
                progress.console.print(f"{name}, {example}", markup=False, highlight=False)
            figures[name] = outcome.figures()
            progress.console.print(name, json.dumps(figures[name]), highlight=False)
    totals = {kind: sum(row[kind] for row in figures.values()) for kind in DEFECTS}
    limits = [
        {"name": kind, "value": count, "limit": 0, "ok": not count}
        for kind, count in totals.items()
    ]
    ok = not any(totals.values())
    print(json.dumps({"name": "fuzz", "figures": figures, "targets": limits, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
