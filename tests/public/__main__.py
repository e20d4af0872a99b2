"""
Run public training programs bare and under stepscope, and compare.

    python -m tests.public --clones FOLDER                 all that FOLDER has, as OWNER/NAME
    python -m tests.public --clones FOLDER --only ppo      by name of the program
    python -m tests.public --clones FOLDER --python FILE   with the interpreter that has stepscope
                                                           and what the programs import
    python -m tests.public --list                          programs and expectations

Each row of the results is one JSON line in --results; the last line printed is one JSON object.
See docs/howto/public-programs.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.public import prepare
from tests.public.programs import Program, read_programs

COUNTER = Path(__file__).with_name("count_steps.py")
TIMEOUT_S = 900
TARGET_PROGRAMS, TARGET_PROJECTS, TARGET_RIGHT = 25, 8, 0.9
LEFT_OUT = shutil.ignore_patterns(".git", "docs", "images", "assets", "benchmark", "*.ipynb")
SEED = "import numpy, random; numpy.random.seed(0); random.seed(0); torch.manual_seed(0)"
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
FOUND = """import sys
from importlib.util import find_spec
sys.exit(not all(map(find_spec, sys.argv[1:])))"""


class ProgramError(Exception):
    """A program did not run to its end without stepscope: nothing can be said about stepscope."""


@dataclass(frozen=True, slots=True)
class Ran:
    exit_code: int
    output: str
    errors: str
    wall_s: float
    others_cores: float  # CPU that programs of others used meanwhile


def main() -> int:
    args = _arguments()
    chosen = [program for program in read_programs() if args.only in program.title]
    if args.list:
        _print_expectations(chosen)
        return 0
    rows, skipped = [], []
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    with args.results.open("w") as results:
        for program in chosen:
            try:
                _check(program, args.clones, args.python)
                row = compare(program, args.clones, args.python, args.keep)
            except ProgramError as error:
                skipped.append((program.title, str(error)))
                console.print(f"[yellow]skipped[/] {program.title}: {error}", highlight=False)
                continue
            rows.append(row)
            print(json.dumps(row), file=results, flush=True)
            console.print(_line(row), highlight=False)
    _print_table(rows, console)
    result = _result(rows, skipped, whole=not args.only)
    print(json.dumps(result))
    return int(not result["ok"])


def compare(program: Program, clones: Path, python: str, keep: Path | None) -> dict[str, Any]:
    """One row: the program bare, with its steps counted, and under stepscope."""
    with tempfile.TemporaryDirectory(prefix="stepscope-public-") as temporary:
        base = Path(temporary)
        counts, folder = base / "counts", base / "run"
        counts.mkdir()
        bare = _run(program, clones, base, _command(program, python, [COUNTER, counts]))
        if bare.exit_code:
            last = bare.errors.strip().splitlines()[-1:] or ["no message"]
            raise ProgramError(f"exit code {bare.exit_code} without stepscope: {last[0]}")
        profiler = [python, "-m", "stepscope", "run", "--quiet", "-o", str(folder)]
        seen = _run(program, clones, base, [*profiler, *_command(program, python)])
        steps = _true_steps(program, counts)
        summary_file = folder / "summary.json"
        summary = json.loads(summary_file.read_text()) if summary_file.exists() else {}
        if keep:
            shutil.copytree(folder, keep / _slug(program.title), dirs_exist_ok=True)
            (keep / _slug(program.title) / "stderr.txt").write_text(seen.errors)
            (keep / _slug(program.title) / "stdout.txt").write_text(seen.output)
            (keep / _slug(program.title) / "bare.txt").write_text(bare.output)
    findings = summary.get("findings") or [{"kind": "none", "share": 0.0}]
    verdict = summary.get("verdict") or {"kind": "none", "title": ""}
    got = verdict["kind"]
    count = (summary.get("steps") or {}).get("count", 0)
    same = bare.exit_code == seen.exit_code
    same = same and _masked(program, bare.output) == _masked(program, seen.output)
    failures = (summary.get("coverage") or {}).get("hook_failures", [])
    return {
        "suite": "public",
        "program": program.title,
        "expected": program.headline.split(),
        "got": got,
        "right": got in program.headline.split(),
        "finding_expected": program.finding.split(),
        "finding": findings[0]["kind"],
        "finding_share": round(findings[0].get("share") or 0.0, 4),
        "finding_right": findings[0]["kind"] in program.finding.split(),
        "title": verdict["title"],
        "steps_expected": steps,
        "steps": count,
        "same_output": same,
        "hook_failures": len(failures),
        "ratio": round(seen.wall_s / bare.wall_s, 3),
        "wall_s": round(bare.wall_s, 1),
        "others_cores": round(max(bare.others_cores, seen.others_cores), 2),
    }


def _run(program: Program, clones: Path, base: Path, command: list[str]) -> Ran:
    """Run the program in a fresh copy of its clone, always in the same place."""
    copy = base / "work"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(clones / program.project, copy, ignore=LEFT_OUT, symlinks=True)
    file = copy / program.file
    for *name, old, new in program.edits:
        _edit(copy / name[0] if name else file, re.escape(old), new.replace("\\", r"\\"))
    if program.seed:
        _edit(file, r"^import torch\b(?!\.)", f"import torch; {SEED}")
    for row in program.data:
        function, path, *sizes = row.split()
        prepare.FUNCTIONS[function](file.parent / path, *map(int, sizes))
    started, busy, own = time.monotonic(), _busy_s(), _children_s()
    try:
        done = subprocess.run(
            command, cwd=file.parent, env=_environment(program, copy), timeout=TIMEOUT_S,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProgramError(f"still running after {TIMEOUT_S} s") from None
    wall_s = time.monotonic() - started
    others = max(0.0, _busy_s() - busy - (_children_s() - own)) / wall_s
    return Ran(done.returncode, done.stdout, done.stderr, wall_s, others)


def _edit(file: Path, old: str, new: str) -> None:
    """Replace a regular expression wherever it matches."""
    source, count = re.subn(old, new, file.read_text(), flags=re.MULTILINE)
    if not count:
        raise ProgramError(f"{file.name} has no {old!r}: another version of the program")
    file.write_text(source)


def _command(program: Program, python: str, counter: Sequence[Path] = ()) -> list[str]:
    torchrun = f"-m torch.distributed.run --standalone --nproc_per_node {program.ranks}".split()
    script = [*map(str, counter), Path(program.file).name, *shlex.split(program.args)]
    return [python, *(torchrun if program.ranks else ()), *script]


def _environment(program: Program, copy: Path) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("STEPSCOPE_", "PYTHONPATH"))
    }
    path = {"PYTHONPATH": str(copy / program.path)} if program.path else {}
    offline = {"MPLBACKEND": "agg", "WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1"}
    return kept | offline | path | {"PYTHONHASHSEED": "0"}  # the order of sets is output, too


def _true_steps(program: Program, counts: Path) -> int:
    if isinstance(program.steps, int):
        return program.steps
    sizes = [file.stat().st_size for file in counts.iterdir()]
    return sum(sizes) if program.steps == "all" else max(sizes, default=0)


def _masked(program: Program, output: str) -> list[str]:
    """Lines of the output without what differs between any two runs."""
    if program.times:
        output = re.sub(program.times, "TIME", output)
    output = re.sub(r"\d+(?:\.\d+)? ?(?:ms|s|sec|seconds|it/s)\b", "TIME", output)
    if not program.same_figures:
        output = re.sub(NUMBER, "NUMBER", output)
    lines = output.splitlines()
    return sorted(lines) if program.ranks or not program.same_figures else lines


def _busy_s() -> float:
    """CPU time of all programs on this machine since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = (int(value) for value in fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check(program: Program, clones: Path, python: str) -> None:
    if not (clones / program.project / program.file).exists():
        raise ProgramError(f"no {program.project}/{program.file} in the folder of clones")
    if subprocess.run([python, "-c", FOUND, *program.needs.split()], check=False).returncode:
        raise ProgramError(f"{python} has not all of {program.needs}")


def _result(
    rows: list[dict[str, Any]], skipped: list[tuple[str, str]], *, whole: bool
) -> dict[str, Any]:
    def part(key: str) -> float:
        return sum(row[key] for row in rows) / len(rows) if rows else 0.0

    exact = sum(row["steps"] == row["steps_expected"] for row in rows) / max(1, len(rows))
    projects = len({row["program"].split("/")[0] for row in rows})
    figures = {
        "programs": len(rows),
        "projects": projects,
        "headline_right": round(part("right"), 4),
        "finding_right": round(part("finding_right"), 4),
        "steps_exact": round(exact, 4),
        "same_output": round(part("same_output"), 4),
        "hook_failures": sum(row["hook_failures"] for row in rows),
        "skipped": dict(skipped),
    }
    least = {"headline_right": TARGET_RIGHT, "steps_exact": 1.0, "same_output": 1.0}
    if whole:
        least |= {"programs": TARGET_PROGRAMS, "projects": TARGET_PROJECTS}
    targets = [
        {"name": name, "value": figures[name], "limit": limit, "ok": figures[name] >= limit}
        for name, limit in least.items()
    ]
    ok = all(target["ok"] for target in targets)
    return {"name": "public", "figures": figures, "targets": targets, "ok": ok}


def _line(row: Mapping[str, Any]) -> str:
    return f"{_mark(row['right'])} {row['program']}: {row['got']} · {row['title']}"


def _mark(right: bool) -> str:
    return "[green]✓[/]" if right else "[red]✗[/]"


def _print_table(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table("program", "headline", "largest avoidable", "steps", "output", "ratio", "others")
    for row in rows:
        exact = row["steps"] == row["steps_expected"]
        table.add_row(
            row["program"],
            f"{_mark(row['right'])} {row['got']}",
            f"{_mark(row['finding_right'])} {row['finding']} {row['finding_share']:.0%}",
            f"{_mark(exact)} {row['steps']}" + ("" if exact else f" of {row['steps_expected']}"),
            _mark(row["same_output"]),
            f"{row['ratio']:.2f}",
            f"{row['others_cores']:.1f}",
        )
    console.print(table)


def _print_expectations(programs: list[Program]) -> None:
    for program in programs:
        print(f"{program.title}: {program.headline} (avoidable: {program.finding})")
        print(f"    {program.because}")


def _slug(title: str) -> str:
    return re.sub(r"[^\w.-]+", "_", title)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.public", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--clones", type=Path, metavar="FOLDER", help="has OWNER/NAME folders")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs with it in their name")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to run them with")
    parser.add_argument("--results", type=Path, default=Path(os.devnull), help="JSON lines")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep runs and outputs here")
    parser.add_argument("--list", action="store_true", help="programs and expectations")
    args = parser.parse_args()
    if not args.list and not (args.clones and args.clones.is_dir()):
        parser.error("no clones: add --clones FOLDER with OWNER/NAME folders in it")
    args.python = str(Path(args.python).absolute())  # programs run in other folders
    return args


if __name__ == "__main__":
    sys.exit(main())
