"""Runs every benchmark and shows what they promised against what they measured.

python benchmarks/run_all.py            # or `make bench`; names run only those: overhead spans
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import progress, table

FOLDER = Path(__file__).parent
NOT_BENCHMARKS = ("harness.py", "made_week.py", "processes.py", "run_all.py", "turns.py")
PARTS = ("gains_*.py", "detector_*.py")  # what gains.py and detectors.py are made of


def benchmarks(wanted: list[str]) -> list[Path]:
    found = sorted(path for path in FOLDER.glob("*.py") if not _is_part(path))
    return [path for path in found if not wanted or path.stem in wanted]


def _is_part(path: Path) -> bool:
    return path.name in NOT_BENCHMARKS or any(map(path.match, PARTS))


def last_line(output: str) -> dict[str, Any]:
    """The JSON object at the end of a benchmark's output; ValueError when there is none."""
    lines = output.strip().splitlines()
    result = json.loads(lines[-1]) if lines else None
    if not isinstance(result, dict) or not {"name", "figures", "targets", "ok"} <= result.keys():
        raise ValueError("its last line is no result")
    return result


def rows_of(result: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    def number(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.4g}"

    return [
        (
            f"{result['name']}: {target['name']}",
            number(target["value"]),
            number(target["limit"]),
            "ok" if target["ok"] else "MISSED",
        )
        for target in result["targets"]
    ]


def main(wanted: list[str]) -> int:
    rows: list[tuple[str, str, str, str]] = []
    broken = 0
    for path in benchmarks(wanted):
        progress(f"== {path.name}")
        done = subprocess.run(
            [sys.executable, path], stdout=subprocess.PIPE, text=True, check=False
        )
        print(done.stdout, flush=True)
        try:
            if done.returncode:
                raise ValueError(f"exit code {done.returncode}")
            rows += rows_of(last_line(done.stdout))
        except ValueError as error:
            broken += 1
            rows.append((path.stem, "could not measure", "", str(error)))
    print(table(("", "value", "limit", ""), rows))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
