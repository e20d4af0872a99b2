"""Runs a program that profiles itself, alone in its process, and reads what it printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"

# What such programs use: independent clocks among it.
BEGINNING = """
import json, os, resource, subprocess, sys, threading, time
from stepscope import PerformanceProfiler, last_run, profile_context, profile_function

MB = 2**20

def tell(**values):
    print(json.dumps(values))

def clocks():
    "Wall, user and system of this process and of the children that it waited for."
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (time.perf_counter(), own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime)

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

def hold(mb, seconds):
    "Exactly so much more memory, for so long: a mapping of its own, every page touched."
    import mmap
    size = mb * MB
    block = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        block[at] = 1
    time.sleep(seconds)
    block.close()
"""


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **more}


def run_program(
    text: str, *, folder: Path | None = None, timeout: float = 120, **more: str
) -> subprocess.CompletedProcess[str]:
    """Whatever became of it; with its own text on the end of what all share."""
    return subprocess.run(
        [sys.executable, "-c", BEGINNING + dedent(text)],
        env=environment(**more), cwd=folder, capture_output=True, text=True, timeout=timeout,
        check=False,
    )  # fmt: skip


def told_by(text: str, *, folder: Path | None = None, timeout: float = 120, **more: str) -> Any:
    """What a program told in its last line."""
    done = run_program(text, folder=folder, timeout=timeout, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def told_when_quiet(
    text: str, is_right: Callable[[Any], bool], tries: int = 4, core: str = "native"
) -> Any:
    """Of several runs the first that is right, else the last: others on this machine can only make
    a measurement worse."""
    told = None
    for _ in range(tries):
        told = told_by(text, STEPSCOPE_CORE=core)
        if is_right(told):
            break
    return told
