"""Runs a training script bare and below the bootstrap, and reads what was recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.loop import Loop
from stepscope.model.event import Row
from stepscope.model.process import ProcessInfo
from stepscope.store.frames import FramesReader

SCRIPTS = Path(__file__).parent / "scripts"
SOURCE = Path(__file__).parents[2] / "src"
BOOTSTRAP = SOURCE / "stepscope" / "bootstrap"

# Runs many scripts one after the other: importing torch takes longer than most of them.
_MANY = """
import contextlib, io, json, runpy, sys
import torch
told = []
for argv in json.loads(sys.argv[1]):
    sys.argv = argv
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(argv[0], run_name="__main__")
    told.append(printed.getvalue())
json.dump(told, sys.stdout)
"""


@dataclass(frozen=True)
class Recorded:
    """What one process left."""

    process: ProcessInfo
    rows: list[Row]
    loop: Loop | None

    def named(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.name == name]


@dataclass(frozen=True)
class Ran:
    """A script that has run to its end below the bootstrap."""

    stdout: str
    stderr: str
    exit_code: int
    processes: list[Recorded]

    @property
    def training(self) -> Recorded:
        """The process with the loop."""
        return max(self.processes, key=lambda p: p.loop.steps if p.loop else -1)

    @property
    def loop(self) -> Loop:
        loop = self.training.loop
        assert loop is not None
        return loop


def environment(**more: str) -> dict[str, str]:
    """The environment of the program: one thread, so that losses are the same to the bit."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE", "PYTHON"))}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def run_bare(commands: list[list[str]]) -> list[str]:
    """What each script prints when nobody looks; all in one process."""
    argvs = [[str(SCRIPTS / command[0]), *command[1:]] for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", _MANY, json.dumps(argvs)],
        env=environment(), capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    told: list[str] = json.loads(done.stdout)
    return told


def run_joined(folder: Path, command: list[str], **more: str) -> Ran:
    """Run a script as `stepscope run` would start it, and read what it left in `folder`."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / command[0]), *command[1:]],
        env=join_environment(folder, **more), capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    return Ran(done.stdout, done.stderr, done.returncode, read_processes(folder))


def join_environment(folder: Path, **more: str) -> dict[str, str]:
    joining = {
        "PYTHONPATH": str(BOOTSTRAP),
        "STEPSCOPE_RUN": str(folder),
        "STEPSCOPE_PACKAGE": str(SOURCE),
        "STEPSCOPE_DEBUG": "1",
    }
    return environment(**{**joining, **more})


def read_processes(folder: Path) -> list[Recorded]:
    found = []
    for first in sorted(folder.glob("rank-*/*.0000.frames")):
        base = first.name.removesuffix(".0000.frames")
        readers = [FramesReader(path) for path in sorted(first.parent.glob(f"{base}.*.frames"))]
        batches = [batch for reader in readers for batch in reader.read_new()]
        process = readers[0].process
        assert process is not None
        fold = LoopFold(process.rank, process.pid, process.monotonic_ns)
        for batch in batches:
            fold.update(batch)
        found.append(Recorded(process, [r for b in batches for r in b.rows()], fold.get()))
    return found
