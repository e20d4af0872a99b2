"""`python -m tests.faults --generate N --seed S`: measure N programs, judge and print."""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.faults.generate.drawing import draw
from tests.faults.generate.judging import Row, judge, result
from tests.faults.generate.measuring import ProgramError, measure

__all__ = ["generate", "read_rows"]

RESULTS = "results.jsonl"


def generate(
    numbers: list[int], seed: int, keep: Path | None, *, crowded: bool, jobs: int, quiet: bool
) -> int:
    """Measure the programs that `keep` has no result of; print a table and one line of JSON."""
    with tempfile.TemporaryDirectory(prefix="stepscope-generate-") as temporary:
        folder = (keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        failures = _measure_missing(numbers, seed, folder, crowded=crowded, jobs=jobs)
        wanted = {f"{seed}-{number}" for number in numbers}
        suite = _suite(crowded)
        rows = [
            row
            for row in (read_rows(folder / RESULTS) if (folder / RESULTS).exists() else [])
            if row["suite"] == suite and row["program"] in wanted
        ]
    if not quiet:
        _print(rows, failures, crowded=crowded)
    print(json.dumps(result(rows, len(failures))))
    return int(bool(failures))


def read_rows(path: Path) -> list[Row]:
    """Results of any suite: generated programs are judged anew, others have their rows."""
    records = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [judge(record) if "truths" in record else record for record in records]


def _suite(crowded: bool) -> str:
    return "generated-crowded" if crowded else "generated"


def _measure_missing(
    numbers: list[int], seed: int, folder: Path, *, crowded: bool, jobs: int
) -> list[tuple[str, str]]:
    done = _programs_in(folder / RESULTS, _suite(crowded))
    missing = [number for number in numbers if f"{seed}-{number}" not in done]
    failures = []
    with ThreadPoolExecutor(jobs) as pool, (folder / RESULTS).open("a") as file:
        futures = {
            pool.submit(
                measure, draw(seed, number), folder / f"{seed}-{number}", crowded=crowded
            ): number
            for number in missing
        }
        for future in as_completed(futures):
            name = f"{seed}-{futures[future]}"
            try:
                file.write(json.dumps(future.result()) + "\n")
                file.flush()
            except ProgramError as error:
                failures.append((name, str(error)))
    return failures


def _programs_in(path: Path, suite: str) -> set[str]:
    if not path.exists():
        return set()
    records: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return {record["program"] for record in records if record["suite"] == suite}


def _print(rows: list[Row], failures: list[tuple[str, str]], *, crowded: bool) -> None:
    print(f"{'program':10}{'shape':16}{'expected':44}{'got':26}place  share off by  gain")
    for row in rows:
        mark = "✓" if row["right"] else "✗"
        place = {True: "✓", False: "✗", None: "–"}[row.get("place_right")]
        off = row.get("share_error_points")
        print(
            f"{row['program']:10}{row['shape']:16}{row['expected']:44}{mark} {row['got']:26}"
            f"{place:5}{'–' if off is None else f'{off:.0f}':>10}  {_promise(row)}"
            f"{'' if row['steps_right'] else '  steps wrong'}"
            f"{'' if row['reliable'] else '  (noisy truth)'}"
        )
    wrong = [row for row in rows if not row["right"] or row.get("place_right") is False]
    for row in wrong:
        seed, number = row["program"].split("-")
        again = f"python -m tests.faults --generate 1 --seed {seed} --only {number}"
        why = row["why"] or f"place: {row.get('where', 'none')}"
        print(f"{again}{' --crowded' if crowded else ''}: {why}")
    for name, error in failures:
        print(f"FAILED {name}: {error}")
    print()


def _promise(row: Row) -> str:
    if "real_gain" not in row:
        return ""
    text = f"{row['real_gain']:.2f}×"
    if "at_most" in row:
        text += f" of at most {row['at_most']:.2f}×"
    if "range" in row:
        text += f", {row['range'][0]:.2f}–{row['range'][1]:.2f}×"
    return text
